package joblogs

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// archive is what is kept of logs, with Jobs that are there or not.
type archive struct {
	*Logs
	t  testing.TB
	at time.Time
}

func newArchive(t testing.TB) *archive {
	s, err := store.Open(filepath.Join(t.TempDir(), "jobd.db"), store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	a := &archive{t: t, at: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)}
	a.open(podLogs{dir: t.TempDir(), store: s, shares: newShares()})
	return a
}

// open begins anew with what is on the disk.
func (a *archive) open(logs podLogs) {
	a.Logs = newLogs(logs, time.Hour, 1000, slog.New(slog.DiscardHandler))
	a.now = func() time.Time { return a.at }
	a.must(a.load(a.t.Context()))
	close(a.loaded)
}

func (a *archive) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *archive) job(name string, there bool) {
	key := store.Key(objects.Jobs, "ns", name)
	a.must(a.store.Update(a.t.Context(), func(tx *store.Tx) error {
		if there {
			tx.Put(store.Object{Key: key, UID: "uid-" + name, Value: []byte("{}")})
		} else {
			tx.Delete(key)
		}
		return nil
	}))
}

// wrote is a pod of a Job that has written so many bytes.
func (a *archive) wrote(job, name string, bytes int) *corev1.Pod {
	return a.wroteAs(job, name, bytes, nil)
}

// kept is such a pod whose log outlives the Job.
func (a *archive) kept(job, name string, bytes int) *corev1.Pod {
	return a.wroteAs(job, name, bytes, func(p *corev1.Pod) {
		p.Annotations = map[string]string{batch.KeepLogsAnnotation: "true"}
		p.CreationTimestamp = metav1.NewTime(a.at)
		p.Spec.Containers = []corev1.Container{{Name: "c"}, {Name: "sidecar"}}
	})
}

// namespace makes the namespace of all of them, of a UID, or removes it.
func (a *archive) namespace(uid string) {
	key := store.Key(objects.Namespaces, "", "ns")
	a.must(a.store.Update(a.t.Context(), func(tx *store.Tx) error {
		tx.Delete(key)
		if uid != "" {
			tx.Put(store.Object{Key: key, UID: uid, Value: []byte("{}")})
		}
		return nil
	}))
}

// leaves is the Job of which it is known that it has left logs.
func (a *archive) leaves(want types.UID) {
	a.t.Helper()
	j, err := a.Left(a.t.Context(), "ns", "j")
	if err != nil || (j == nil) != (want == "") || j != nil && (j.UID != want || !slices.Equal(batch.LogContainers(j), []string{"c", "sidecar"})) {
		a.t.Errorf("%+v, %v; want %q", j, err, want)
	}
}

func (a *archive) wroteAs(job, name string, bytes int, with func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}}
	if job != "" {
		p.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: job, UID: types.UID("uid-" + job),
			Controller: ptr.To(true),
		}}
	}
	if with != nil {
		with(p)
	}
	a.must(a.Begin(p, "c", 0))
	path := a.Path(p, "c", 0)
	a.must(os.MkdirAll(filepath.Dir(path), 0o755))
	a.must(os.WriteFile(path, make([]byte, bytes), 0o600))
	return p
}

func (a *archive) ends(p *corev1.Pod) { a.must(a.podGone(newLogRecord(p))) }

func (a *archive) want(names ...string) {
	a.t.Helper()
	var got []string
	entries, _ := os.ReadDir(a.dir)
	for _, e := range entries {
		_, name, _, _ := podOfDir(e.Name())
		got = append(got, name)
	}
	if !slices.Equal(got, names) {
		a.t.Errorf("there are logs of %q, want %q", got, names)
	}
	known := 0
	for _, of := range a.jobs {
		known += len(of)
	}
	if known != len(names) {
		a.t.Errorf("%d pods are known, want %d", known, len(names))
	}
}

func TestKeptLogs(t *testing.T) {
	for rule, test := range map[string]func(a *archive){
		"of a pod that is gone stay while its Job is there": func(a *archive) {
			a.job("j", true)
			a.ends(a.wrote("j", "a", 10))
			a.want("a")
			a.open(a.podLogs)
			a.want("a")
			a.job("j", false)
			a.must(a.jobGone("uid-j"))
			a.want()
		},
		"go with a pod that has no Job": func(a *archive) {
			a.ends(a.wrote("", "a", 10))
			a.want()
		},
		"go with a pod whose Job has gone first": func(a *archive) {
			p := a.wrote("j", "a", 10)
			a.must(a.jobGone("uid-j"))
			a.ends(p)
			a.want()
		},
		"go when a crash came between the end of the Job and what follows": func(a *archive) {
			a.job("j", true)
			a.ends(a.wrote("j", "a", 10))
			a.job("j", false)
			a.open(a.podLogs)
			a.want()
		},
		"outlive a Job that says so, until they are too old": func(a *archive) {
			a.namespace("n1")
			a.job("j", true)
			a.ends(a.kept("j", "a", 10))
			a.ends(a.wrote("j", "b", 10))
			a.leaves("")
			late := a.kept("j", "late", 10)
			a.job("j", false)
			a.must(a.jobGone("uid-j"))
			a.want("a", "late")
			a.leaves("uid-j")
			a.ends(late)
			a.open(a.podLogs)
			a.want("a", "late")
			a.leaves("uid-j")
			a.at = a.at.Add(time.Hour)
			a.must(a.bound())
			a.want()
			a.leaves("")
		},
		"outlive a Job, also when a crash came between its end and what follows": func(a *archive) {
			a.namespace("n1")
			a.job("j", true)
			a.kept("j", "a", 10)
			a.job("j", false)
			a.open(a.podLogs)
			a.want("a")
			a.leaves("uid-j")
		},
		"that outlive a Job end with its namespace": func(a *archive) {
			a.namespace("n1")
			a.job("j", true)
			a.ends(a.kept("j", "a", 10))
			a.job("j", false)
			a.must(a.jobGone("uid-j"))
			a.must(a.namespaceGone("other"))
			a.leaves("uid-j")
			a.namespace("")
			a.leaves("")
			a.namespace("n2") // before it is known that the one before is gone
			a.leaves("")
			a.must(a.namespaceGone("ns"))
			a.want()
			a.leaves("")
			if a.size != 0 || len(a.sizes) != 0 || len(a.gone) != 0 {
				a.t.Errorf("%d bytes are counted", a.size)
			}
		},
		"that outlive a Job are not those of another namespace of that name": func(a *archive) {
			a.namespace("n1")
			a.job("j", true)
			a.ends(a.kept("j", "a", 10))
			a.job("j", false)
			a.namespace("n2")
			a.open(a.podLogs)
			a.want()
			a.leaves("")
		},
		"are those of the last Job of a name": func(a *archive) {
			a.namespace("n1")
			a.job("j", true)
			a.ends(a.kept("j", "a", 10))
			a.job("j", false)
			a.must(a.jobGone("uid-j"))
			a.at = a.at.Add(time.Minute)
			again := a.kept("j", "b", 10)
			again.OwnerReferences[0].UID = "uid-again"
			again.UID = "uid-b2"
			a.must(os.Rename(filepath.Join(a.dir, "ns_b_uid-b"), filepath.Join(a.dir, "ns_b_uid-b2")))
			a.must(a.Begin(again, "c", 0))
			a.ends(again)
			a.leaves("uid-again")
			a.open(a.podLogs)
			a.leaves("uid-again")
		},
		"are of a pod that was adopted": func(a *archive) {
			a.job("j", true)
			p := a.wrote("", "a", 10)
			p.OwnerReferences = a.wrote("j", "b", 10).OwnerReferences
			a.ends(p)
			a.want("a", "b")
		},
		"of more than may be kept lose the oldest": func(a *archive) {
			a.job("j", true)
			for i, bytes := range []int{400, 400, 300} {
				a.ends(a.wrote("j", fmt.Sprint("p", i), bytes))
				a.at = a.at.Add(time.Minute)
			}
			a.must(a.bound())
			a.want("p1", "p2")
			a.open(a.podLogs)
			a.wrote("j", "living", 5000) // counts when it is gone
			a.must(a.bound())
			a.want("living", "p1", "p2")
		},
		"of a namespace that has most make room first": func(a *archive) {
			a.job("j", true)
			a.must(a.store.Update(a.t.Context(), func(tx *store.Tx) error {
				tx.Put(store.Object{Key: store.Key(objects.Jobs, "other", "j"), UID: "uid-j"})
				return nil
			}))
			a.ends(a.wrote("j", "victim", 300))
			for i := range 4 {
				p := a.wrote("j", fmt.Sprint("p", i), 300)
				r := newLogRecord(p)
				a.must(os.Rename(a.podDir(p), filepath.Join(a.dir, "other_"+p.Name+"_"+string(p.UID))))
				a.jobs[r.JobUID][r.UID].Namespace, r.Namespace = "other", "other"
				a.must(a.podGone(r))
				a.must(a.bound())
			}
			a.want("victim", "p2", "p3")
			a.must(a.jobGone("uid-j"))
			a.want()
			if a.size != 0 || len(a.sizes) != 0 {
				a.t.Errorf("%d bytes are counted, %v", a.size, a.sizes)
			}
		},
		"go when they are too old, counted from the end of the pod": func(a *archive) {
			a.job("j", true)
			a.ends(a.wrote("j", "a", 10))
			a.at = a.at.Add(30 * time.Minute)
			a.ends(a.wrote("j", "b", 10))
			a.open(a.podLogs)
			a.at = a.at.Add(30 * time.Minute)
			a.must(a.bound())
			a.want("b")
			if next, ok := a.nextTooOld(); next != 30*time.Minute || !ok {
				a.t.Errorf("the next one goes in %v", next)
			}
		},
	} {
		t.Run(rule, func(t *testing.T) { test(newArchive(t)) })
	}
}

func TestWhatACrashLeavesOfGonePodsIsRemoved(t *testing.T) {
	a := newArchive(t)
	a.job("j", true)
	living := a.wrote("j", "living", 1)
	a.must(a.store.Update(t.Context(), func(tx *store.Tx) error {
		value, err := scheme.Encode(living)
		tx.Put(store.Object{Key: objects.Key(objects.Pods, living), UID: string(living.UID), Value: value})
		return err
	}))
	ended := a.wrote("j", "ended", 1) // its Job is still there
	gone := living.DeepCopy()
	gone.Name, gone.UID = "gone", "uid-of-gone"
	renewed := living.DeepCopy() // the name is there again, the pod is not
	renewed.UID = "older"
	for _, p := range []*corev1.Pod{gone, renewed} { // they have left no record
		path := a.Path(p, "c", 0)
		a.must(os.MkdirAll(filepath.Dir(path), 0o755))
		a.must(os.WriteFile(path, []byte("x"), 0o600))
	}
	a.open(a.podLogs)
	for _, p := range []*corev1.Pod{living, ended, gone, renewed} {
		if _, err := os.Stat(a.podDir(p)); (err == nil) != (p == living || p == ended) {
			t.Errorf("logs of %s %s: %v", p.Name, p.UID, err)
		}
	}
}

func TestLogsOfTheLastAttemptsAreKept(t *testing.T) {
	a := newArchive(t)
	p := a.wrote("j", "a", 10)
	for attempt := range 12 {
		a.must(a.Begin(p, "c", attempt))
		for _, part := range []string{"", ".20260102-150405.000000000"} {
			a.must(os.WriteFile(a.Path(p, "c", attempt)+part, nil, 0o600))
		}
	}
	if got := a.attempts(newLogRecord(p), "c"); !slices.Equal(got, []int{7, 8, 9, 10, 11}) {
		t.Errorf("attempts %d", got)
	}
	if files, err := os.ReadDir(filepath.Dir(a.Path(p, "c", 0))); err != nil || len(files) != 10 {
		t.Errorf("%d files, %v", len(files), err)
	}
}

func TestMergedLinesAreWhole(t *testing.T) {
	var out strings.Builder
	m := &lineMerger{w: &out, remaining: 17, enough: func() {}}
	a, b := &lineSource{to: m}, &lineSource{to: m}
	for _, part := range []struct {
		to   *lineSource
		text string
	}{{a, "one "}, {b, "two\nth"}, {a, "line\n"}, {b, "ree"}} { // b ends without a newline
		if _, err := part.to.Write([]byte(part.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(); err != errEnough || !m.full() {
		t.Errorf("at the limit: %v", err)
	}
	if got, want := out.String(), "two\none line\nthre"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// What pods of another node print is there: that is said instead of an empty log.
func TestLogsOfPodsOfAnotherNode(t *testing.T) {
	elsewhere := `is on the node "far", and this machine is "here": what it prints is there`
	for name, c := range map[string]struct {
		template, managedBy string
		pods                []string // the nodes of the Job's pods
		node                string   // that Elsewhere names
		job, pod            string   // what reading the log of the Job, and of its last pod, says
	}{
		"by the template":  {"far", "", []string{"far"}, "far", `the pods of job "j" are on the node "far", and this machine is "here"`, elsewhere},
		"by their manager": {"", "example.com/other", []string{"far", "far"}, "far", `the pods of job "j" are on the node "far"`, elsewhere},
		"some of them":     {"", "example.com/other", []string{"far", "here"}, "far", "waiting to start", "waiting to start"},
		"none of them":     {"", "example.com/other", []string{"here"}, "", "waiting to start", "waiting to start"},
		"no pods yet":      {"", "example.com/other", nil, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFollowed(t)
			f.node, f.job.Spec.Template.Spec.NodeName = "here", c.template
			if c.managedBy != "" {
				f.job.Spec.ManagedBy = &c.managedBy
			}
			var pods []*corev1.Pod
			for i, node := range c.pods {
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p" + node, CreationTimestamp: metav1.Unix(int64(i+1), 0)}}
				p.UID = types.UID(p.Name + string(rune('0'+i)))
				p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(f.job, batchv1.SchemeGroupVersion.WithKind("Job"))}
				p.Spec = corev1.PodSpec{NodeName: node, Containers: f.job.Spec.Template.Spec.Containers}
				pods = append(pods, p)
			}
			for i, p := range pods {
				p.Name += string(rune('0' + i))
			}
			f.save(pods...)
			if node, err := f.Elsewhere(f.job); node != c.node || err != nil {
				t.Errorf("elsewhere: %q, %v", node, err)
			}
			says := func(log string, err error, want string) {
				t.Helper()
				if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want %q", log, err, want)
				}
			}
			r, err := f.OpenJob(t.Context(), f.job, &batch.JobLogOptions{Container: "c"})
			says("the Job's", err, c.job)
			if err == nil {
				f.must(r.Close())
			}
			if len(pods) > 0 {
				_, err := f.Open(t.Context(), pods[len(pods)-1], &corev1.PodLogOptions{Container: "c"})
				says("the pod's", err, c.pod)
			}
		})
	}
}
