// Package upstream compares the rules of jobd's kinds, which are its own, with those of Kubernetes: what they fill in, what
// they refuse and in which words, for the manifests of this repository and for others that are made of them at random. What
// differs is either mended or stands in the table of differences_test.go with the reason. An upgrade of Kubernetes shows here
// what has changed.
//
//	make compare COMPAREFLAGS="-mutants 100000 -seed 2"
package upstream

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/jobd/jobd/api/kind"
	"github.com/jobd/jobd/api/scheme"
)

var (
	mutants = flag.Int("mutants", 100, "how many manifests to make of each seed")
	seed    = flag.Uint64("seed", 1, "what the random changes follow from")
)

// sample is a manifest, or a change of what is stored.
type sample struct {
	kind        *kind.Kind
	name        string
	object      runtime.Object
	old         runtime.Object // nil for a creation
	subresource string
}

func (s sample) String() string {
	out, _ := json.Marshal(s.object)
	if s.old == nil {
		return s.name + ": " + string(out)
	}
	old, _ := json.Marshal(s.old)
	return s.name + ", an update of " + s.subresource + ": " + string(out) + "\n  stored was " + string(old)
}

func kindOf(gvk schema.GroupVersionKind) *kind.Kind {
	for _, k := range scheme.Kinds() {
		if k.GroupVersion.WithKind(k.Name) == gvk {
			return k
		}
	}
	return nil
}

func TestEveryKindIsCompared(t *testing.T) {
	for _, k := range scheme.Kinds() {
		if k.GroupVersion.Group == "jobset.x-k8s.io" || k.GroupVersion.Group == "kueue.x-k8s.io" {
			continue // which Kubernetes does not have: tests in api/jobset follow JobSet's webhook, and Workloads are kept as they come
		}
		if clusterStrategies[k.Name] == nil {
			t.Errorf("%s is not compared", k.Name)
		}
		if k.Subresources["status"] != nil && clusterStatusStrategies[k.Name] == nil {
			t.Errorf("the status of a %s is not compared", k.Name)
		}
	}
}

// The versions that are compared are the ones that jobd is built with.
func TestVersionIsTheServedOne(t *testing.T) {
	version := func(file, pattern string) string {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(pattern).FindSubmatch(content)
		if m == nil {
			t.Fatalf("%s says nothing of the version", file)
		}
		return string(m[1])
	}
	served := version("../../go.mod", `k8s\.io/api v0\.(\S+)`)
	for _, pattern := range []string{`k8s\.io/api => k8s\.io/api v0\.(\S+)`, `k8s\.io/kubernetes v1\.(\S+)`} {
		if compared := version("go.mod", pattern); compared != served {
			t.Errorf("jobd serves %s, compared is %s", served, compared)
		}
	}
}

// manifests are those of the repository.
func manifests(t *testing.T) (all []sample) {
	t.Helper()
	var files []string
	for _, pattern := range []string{"seeds.yaml", "../examples/*.yaml", "../oracle/bad/*.yaml", "../oracle/scenarios/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no manifests at %s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		base := filepath.Base(file)
		if base == "errors.yaml" || strings.Count(base, ".") > 1 {
			continue // what was recorded, not what was posted
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range bytes.Split(content, []byte("\n---\n")) {
			data, err := utilyaml.ToJSON(doc)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			obj, gvk, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
			if err != nil {
				t.Logf("left out: %s: %v", base, err)
				continue
			}
			k := kindOf(*gvk)
			if k == nil {
				t.Fatalf("%s is of no served kind", file)
			}
			// Decoding fills in defaults, which is to be compared.
			obj = k.New()
			if err := json.Unmarshal(data, obj); err != nil {
				t.Fatal(err)
			}
			received(k, obj)
			m, _ := meta.Accessor(obj)
			all = append(all, sample{kind: k, name: base + " " + m.GetName(), object: obj})
			if j, ok := obj.(*batchv1.Job); ok && strings.Contains(file, "examples") {
				pod := &corev1.Pod{ObjectMeta: *j.ObjectMeta.DeepCopy(), Spec: *j.Spec.Template.Spec.DeepCopy()}
				k := kindOf(corev1.SchemeGroupVersion.WithKind("Pod"))
				all = append(all, sample{kind: k, name: "pod of " + base, object: pod})
				cron := &batchv1.CronJob{ObjectMeta: *j.ObjectMeta.DeepCopy()}
				cron.Spec.Schedule, cron.Spec.JobTemplate.Spec = "@hourly", *j.Spec.DeepCopy()
				k = kindOf(batchv1.SchemeGroupVersion.WithKind("CronJob"))
				all = append(all, sample{kind: k, name: "cron of " + base, object: cron})
			}
		}
	}
	return all
}

func TestManifests(t *testing.T) {
	c := newComparison(t)
	for _, s := range manifests(t) {
		c.compare(s)
	}
	c.report()
}

func TestMutants(t *testing.T) {
	c, m, seeds := newComparison(t), newMutator(*seed), manifests(t)
	for _, s := range seeds {
		m.learn(s.object)
	}
	for _, s := range seeds {
		stored, err := cluster.create(s.kind, s.object)
		for range *mutants {
			changed := s
			changed.object = s.object.DeepCopyObject()
			m.mutate(changed.object, "")
			c.compare(changed)
			if err != nil || len(stored.errs) > 0 {
				continue
			}
			changed.old = withVersion(stored.stored)
			changed.object = changed.old.DeepCopyObject()
			if s.kind.Subresources["status"] != nil && m.IntN(2) == 0 {
				changed.subresource = "status"
				m.mutate(changed.object, "Status")
				if m.IntN(2) == 0 { // what is stored had a status too, of which only some is new
					changed.old = changed.object.DeepCopyObject()
					m.mutate(changed.object, "Status")
				}
			} else {
				m.mutate(changed.object, "")
			}
			c.compare(changed)
		}
	}
	c.report()
	for _, d := range differences {
		if d.seen == 0 {
			t.Errorf("does not show any more: %s: %s %s %s", d.why, d.kinds, d.field, d.message)
		}
	}
}

func withVersion(obj runtime.Object) runtime.Object {
	obj = obj.DeepCopyObject()
	m, _ := meta.Accessor(obj)
	m.SetResourceVersion("7")
	return obj
}

// comparison gathers what differs, with an example of each.
type comparison struct {
	*testing.T
	samples, left int
	found         map[finding]*example
}

// finding is a difference without what is particular to one object.
type finding struct {
	Kind, Verb string
	Side       string // who alone has it, "jobd" or "cluster"
	Field      string
	Message    string
	Refused    string // who refuses the object: "nobody", "jobd", "cluster" or "both"; "" of defaults and what is stored
}

type example struct {
	count int
	size  int
	text  string
}

func newComparison(t *testing.T) *comparison {
	return &comparison{T: t, found: map[finding]*example{}}
}

func (c *comparison) compare(s sample) {
	var ours, theirs answer
	var err, theirErr error
	if s.old == nil {
		ours, err = jobd.create(s.kind, s.object)
		theirs, theirErr = cluster.create(s.kind, s.object)
	} else {
		ours, err = jobd.update(s.kind, s.object, s.old, s.subresource)
		theirs, theirErr = cluster.update(s.kind, s.object, s.old, s.subresource)
	}
	c.samples++
	if err != nil {
		c.Errorf("%v\n%s", err, s)
	}
	if theirErr != nil {
		c.left++ // nothing to compare with: what a server would not have decoded
		return
	}
	c.differs(s, "defaults", theirs.defaulted, ours.defaulted)
	for _, p := range ours.errs {
		if !slices.Contains(theirs.errs, p) {
			c.add(s, "jobd", p, ours, theirs)
		}
	}
	refused := func(field string) bool {
		return slices.ContainsFunc(ours.errs, func(p problem) bool {
			return strings.HasPrefix(p.Message, "Forbidden: jobd does not support this: ") && strings.HasPrefix(field, p.Field)
		})
	}
	for _, p := range theirs.errs {
		// What is in a field that jobd refuses is of no further interest.
		if !slices.Contains(ours.errs, p) && !refused(p.Field) {
			c.add(s, "cluster", p, ours, theirs)
		}
	}
	if len(ours.errs)+len(theirs.errs) == 0 {
		c.differs(s, "stored", theirs.stored, ours.stored)
		for _, w := range theirs.warnings {
			if !slices.Contains(ours.warnings, w) {
				c.add(s, "cluster", problem{Field: "warning", Message: w}, ours, theirs)
			}
		}
		for _, w := range ours.warnings {
			if !slices.Contains(theirs.warnings, w) {
				c.add(s, "jobd", problem{Field: "warning", Message: w}, ours, theirs)
			}
		}
	}
}

// differs notes each field in which two objects are not equal.
func (c *comparison) differs(s sample, what string, theirs, ours runtime.Object) {
	if equality.Semantic.DeepEqual(theirs, ours) {
		return
	}
	gocmp.Equal(theirs, ours, append(semantics, gocmp.Reporter(&reporter{note: func(field, values string) {
		c.note(s, finding{Side: "both", Field: what + " " + field, Message: values}, gocmp.Diff(theirs, ours, semantics...))
	}}))...)
}

var semantics = []gocmp.Option{
	cmpopts.EquateEmpty(),
	gocmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }),
	gocmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) }),
	gocmp.Comparer(func(a, b metav1.MicroTime) bool { return a.Equal(&b) }),
}

// reporter names the fields that differ.
type reporter struct {
	path gocmp.Path
	note func(field, values string)
}

func (r *reporter) PushStep(step gocmp.PathStep) { r.path = append(r.path, step) }
func (r *reporter) PopStep()                     { r.path = r.path[:len(r.path)-1] }

func (r *reporter) Report(result gocmp.Result) {
	if result.Equal() {
		return
	}
	var field strings.Builder
	for _, step := range r.path {
		switch step := step.(type) {
		case gocmp.StructField:
			field.WriteString("." + step.Name())
		case gocmp.SliceIndex, gocmp.MapIndex:
			field.WriteString("[]")
		}
	}
	show := func(v reflect.Value) string {
		if !v.IsValid() {
			return "nothing"
		}
		for v.Kind() == reflect.Pointer && !v.IsNil() {
			v = v.Elem()
		}
		text := fmt.Sprintf("%+v", v)
		return text[:min(len(text), 80)]
	}
	theirs, ours := r.path.Last().Values()
	r.note(strings.TrimPrefix(field.String(), "."), "-"+show(theirs)+" +"+show(ours))
}

func (c *comparison) add(s sample, side string, p problem, ours, theirs answer) {
	c.note(
		s, finding{Side: side, Field: p.Field, Message: p.Message, Refused: refusedBy(ours, theirs)},
		fmt.Sprintf("jobd: %v\ncluster: %v", ours.errs, theirs.errs),
	)
}

// refusedBy returns who refuses an object: whether a difference is one of acceptance, or of words only.
func refusedBy(ours, theirs answer) string {
	switch {
	case len(ours.errs) > 0 && len(theirs.errs) > 0:
		return "both"
	case len(ours.errs) > 0:
		return "jobd"
	case len(theirs.errs) > 0:
		return "cluster"
	}
	return "nobody"
}

var (
	index  = regexp.MustCompile(`\[[^\]]*\]`)
	value  = regexp.MustCompile(`(?s)(Invalid|Unsupported|Duplicate) value: .*: `)
	quoted = regexp.MustCompile(`"[^"]*"`)
	number = regexp.MustCompile(`-?\d+`)
)

func (c *comparison) note(s sample, f finding, details string) {
	f.Kind, f.Verb = s.kind.Name, "create"
	if s.old != nil {
		f.Verb = strings.TrimSpace("update " + s.subresource)
	}
	for _, d := range differences {
		if d.explains(f) {
			d.seen++
			return
		}
	}
	message := f.Message
	f.Field = index.ReplaceAllString(f.Field, "[*]")
	if f.Side != "both" {
		f.Message = value.ReplaceAllString(f.Message, "$1 value: *: ")
		f.Message = number.ReplaceAllString(quoted.ReplaceAllString(f.Message, `"*"`), "N")
	}
	e := c.found[f]
	if e == nil {
		e = &example{}
		c.found[f] = e
	}
	e.count++
	if text := s.String(); e.size == 0 || len(text) < e.size {
		e.size, e.text = len(text), message+"\n"+text+"\n"+details
	}
}

func (c *comparison) report() {
	c.Helper()
	c.Logf("%d manifests, of which a cluster cannot decode %d", c.samples, c.left)
	all := slices.SortedFunc(maps.Keys(c.found), func(a, b finding) int { return c.found[b].count - c.found[a].count })
	for _, f := range all {
		e := c.found[f]
		if len(e.text) > 6000 {
			e.text = e.text[:6000] + "..."
		}
		c.Errorf("%d times: %s, %s, refused by %s: %s alone has %s: %s\n%s", e.count, f.Kind, f.Verb, f.Refused, f.Side, f.Field, f.Message, e.text)
	}
}
