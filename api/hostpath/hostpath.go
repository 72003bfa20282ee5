// Package hostpath reads which paths of the host the pods of a namespace may mount: the list in the namespace's
// annotation, which only an administrator may write. It compares names and does not look at the file system, where a
// symlink may lead elsewhere; runtime/volume does that when it sets up a volume.
package hostpath

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/podspec"
)

// Annotation of a Namespace lists the directories and files of the host that volumes of the type hostPath may show,
// with all that is below them, separated by commas: "/data/team,/srv/models:ro". What ends in ":ro" may only be mounted
// for reading. An empty list allows none; without the annotation there is no limit.
const Annotation = "jobd.dev/allowed-host-paths"

// Allowed is a path that may be mounted, with all that is below it.
type Allowed struct {
	Path     string // absolute and clean
	ReadOnly bool
}

func (a Allowed) String() string {
	if a.ReadOnly {
		return a.Path + readOnly
	}
	return a.Path
}

const readOnly = ":ro"

// List is what a namespace allows. A nil List allows every path.
type List struct{ allowed []Allowed }

// Of returns the list of a namespace, nil if it has none. With an error comes a list that allows nothing.
func Of(ns *corev1.Namespace) (*List, error) {
	value, limited := ns.Annotations[Annotation]
	if !limited {
		return nil, nil
	}
	l, err := parse(value)
	if err != nil {
		return &List{}, fmt.Errorf("%s: %w", Annotation, err)
	}
	return l, nil
}

// Validate checks the annotation of a Namespace.
func Validate(ns *corev1.Namespace) field.ErrorList {
	value, limited := ns.Annotations[Annotation]
	if !limited {
		return nil
	}
	if _, err := parse(value); err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("metadata", "annotations").Key(Annotation), value, err.Error())}
	}
	return nil
}

func parse(value string) (*List, error) {
	l := &List{}
	if strings.TrimSpace(value) == "" {
		return l, nil
	}
	for entry := range strings.SplitSeq(value, ",") {
		name, ro := strings.CutSuffix(strings.TrimSpace(entry), readOnly)
		switch {
		case !path.IsAbs(name):
			return nil, fmt.Errorf("%q is not an absolute path", name)
		case path.Clean(name) != name:
			return nil, fmt.Errorf("%q must be written as %q", name, path.Clean(name))
		case name == "/":
			return nil, fmt.Errorf("a path must be below /: to allow every path, remove the annotation")
		case strings.ContainsAny(name, "\x00\n"):
			return nil, fmt.Errorf("%q contains a character that no path should", name)
		}
		l.allowed = append(l.allowed, Allowed{name, ro})
	}
	return l, nil
}

func (l *List) String() string {
	if len(l.allowed) == 0 {
		return "none"
	}
	var entries []string
	for _, a := range l.allowed {
		entries = append(entries, a.String())
	}
	return strings.Join(entries, ", ")
}

// Find returns the entry that allows a path to be mounted: one that allows writing if there is one, and of those the
// one that is highest in the tree, since symlinks may lead anywhere below it.
func (l *List) Find(name string) (found Allowed, ok bool) {
	name = path.Clean(name)
	for _, a := range l.allowed {
		if name != a.Path && !strings.HasPrefix(name, a.Path+"/") {
			continue
		}
		better := found.ReadOnly && !a.ReadOnly || found.ReadOnly == a.ReadOnly && len(a.Path) < len(found.Path)
		if !ok || better {
			found, ok = a, true
		}
	}
	return found, ok
}

// Check returns why the volumes of a pod are refused. The path is that of the spec.
func (l *List) Check(spec *corev1.PodSpec, at *field.Path) (errs field.ErrorList) {
	if l == nil {
		return nil
	}
	reading := map[string]Allowed{} // volumes that may not be written to
	for i, v := range spec.Volumes {
		if v.HostPath == nil {
			continue
		}
		allowed, ok := l.Find(v.HostPath.Path)
		if !ok {
			errs = append(errs, field.Forbidden(at.Child("volumes").Index(i).Child("hostPath", "path"),
				fmt.Sprintf("%q is not among the paths that the namespace allows: %s", v.HostPath.Path, l)))
		} else if allowed.ReadOnly {
			reading[v.Name] = allowed
		}
	}
	if len(reading) == 0 {
		return errs
	}
	podspec.Each(spec, at, func(c *corev1.Container, at *field.Path) {
		for i, m := range c.VolumeMounts {
			if allowed, ok := reading[m.Name]; ok && !m.ReadOnly {
				errs = append(errs, field.Forbidden(at.Child("volumeMounts").Index(i).Child("readOnly"),
					fmt.Sprintf("must be true: the namespace allows %s only for reading", allowed.Path)))
			}
		}
	})
	return errs
}

// Excused returns a spec without the volumes of the type hostPath that the list names, the same one if it has none. A
// rule that forbids such volumes in general does not mean those that an administrator has listed.
func (l *List) Excused(spec *corev1.PodSpec) *corev1.PodSpec {
	if l == nil {
		return spec
	}
	out := spec
	for i, v := range spec.Volumes {
		if v.HostPath == nil {
			continue
		}
		if _, ok := l.Find(v.HostPath.Path); !ok {
			continue
		}
		if out == spec {
			out = spec.DeepCopy()
		}
		out.Volumes[i].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	}
	return out
}
