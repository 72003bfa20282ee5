package handover

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/hostimage"
	"github.com/jobd/jobd/api/images"
)

// There is what is known of the server that is to run the work.
type There struct {
	Name string // as the user calls it
	// Jobd: it is one, which knows all that this one does.
	Jobd bool
	// Lacks are those of the needs that it does not have.
	Lacks []Need
	// Images are those that it has, if it is a jobd; nil if it does not say.
	Images []images.Image
}

// Finding is what would be otherwise there.
type Finding struct {
	Field, Text string
	// Wrong: it would not run, or on other data. All else only has no effect.
	Wrong bool
}

func (f Finding) String() string { return f.Field + ": " + f.Text }

// Check returns what would be otherwise if the work ran there. here are the images of this machine, as far as they are known.
func Check(w Work, here []images.Image, there There) (all []Finding) {
	for _, i := range w.Images() {
		if text := imageMissing(i.Ref, here, there); text != "" {
			all = append(all, Finding{i.Field, text, !there.Jobd || there.Images != nil})
		}
	}
	for _, n := range there.Lacks {
		all = append(all, Finding{n.Field, fmt.Sprintf("there is no %s %s in %s", n.Kind, n.Name, there.Name), true})
	}
	for _, p := range w.Jobs {
		at := p.path("spec", "template", "spec", "volumes")
		for i, v := range p.Spec.Template.Spec.Volumes {
			if v.HostPath != nil {
				all = append(all, Finding{at.Index(i).Child("hostPath", "path").String(),
					v.HostPath.Path + " is of this machine: where the Job would run it is another one, or none", true})
			}
		}
		if !there.Jobd {
			all = append(all, annotated(p.path("metadata", "annotations").String(), p.Meta.Annotations)...)
			all = append(all, annotated(p.path("spec", "template", "metadata", "annotations").String(), p.Spec.Template.Annotations)...)
		}
	}
	return all
}

// imageMissing says why an image cannot be had there; empty if nothing is known against it.
func imageMissing(ref string, here []images.Image, there There) string {
	if hostimage.Is(ref) {
		if there.Jobd {
			return ""
		}
		return ref + " runs a command of this machine, which a cluster cannot"
	}
	name, err := reference.ParseDockerRef(ref)
	if err != nil {
		return "" // the server says what is wrong with it
	}
	has := func(list []images.Image, local bool) bool {
		return slices.ContainsFunc(list, func(i images.Image) bool { return i.Name == name.String() && (i.Local || !local) })
	}
	if !has(here, true) || has(there.Images, false) {
		return ""
	}
	return fmt.Sprintf("%s is only here: it was imported, tagged, or taken from the docker or podman of this machine, and no registry has given it. "+
		"Push it (jobctl image push %[1]s REGISTRY/NAME:TAG), and name it so", ref)
}

const prefix = "jobd.dev/"

// silent are annotations of jobd of which nobody expects anything elsewhere.
var silent = []string{
	batch.MovingAnnotation, batch.MovedFromAnnotation, clusters.OverflowAfterAnnotation, clusters.OverflowedAnnotation,
	batch.AttemptsAnnotation, batch.ResumedAnnotation, batch.PausedForAnnotation,
	batch.ManifestHashAnnotation, batch.PrioritizedAnnotation,
	batch.ScriptAnnotation, // the downward API of a cluster shows it as well
	batch.ArrayAnnotation,  // jobctl reads it from the Job, wherever that is
}

// heavy are those without which the Job would be another one.
var heavy = map[string]string{
	batch.AfterAnnotation:    "the Job stays suspended in a cluster, which knows of no other Jobs to wait for",
	batch.StartAtAnnotation:  "the Job stays suspended in a cluster, which does not start it at a time",
	batch.IndexEnvAnnotation: "no container starts in a cluster, which gives all indexes the same variables",
	batch.PausedAnnotation:   "the Job is paused here, and a cluster would start it at once",
}

// annotated says which annotations a cluster ignores.
func annotated(at string, annotations map[string]string) (all []Finding) {
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		if !strings.HasPrefix(name, prefix) || slices.Contains(silent, name) {
			continue
		}
		text, wrong := heavy[name]
		if !wrong {
			text = "has no effect in a cluster"
		}
		all = append(all, Finding{fmt.Sprintf("%s[%s]", at, name), text, wrong})
	}
	return all
}

// Dropped returns the fields of an object that was sent which the answer to it does not have: a server leaves out those that it knows but
// has switched off. Empty ones are not looked for.
func Dropped(sent, answered map[string]any) []string {
	return dropped(sent, answered, "")
}

func dropped(sent, got any, at string) (all []string) {
	switch s := sent.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(s)) {
			path := strings.TrimPrefix(at+"."+name, ".")
			if v, ok := g[name]; ok {
				all = append(all, dropped(s[name], v, path)...)
			} else if !empty(s[name]) {
				all = append(all, path)
			}
		}
	case []any:
		g, _ := got.([]any)
		for i := range min(len(s), len(g)) {
			all = append(all, dropped(s[i], g[i], fmt.Sprintf("%s[%d]", at, i))...)
		}
	}
	return all
}

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		for _, inner := range v {
			if !empty(inner) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	case string:
		return v == ""
	case bool:
		return !v
	}
	return false
}

// Wrong returns the findings because of which work is not handed over.
func Wrong(all []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(all), func(f Finding) bool { return !f.Wrong })
}

// suspended reports whether a Job is, apart from being moved.
func suspended(suspend *bool, m *batch.Moving) bool {
	if m != nil {
		return m.Suspended
	}
	return ptr.Deref(suspend, false)
}
