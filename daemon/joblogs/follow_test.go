package joblogs

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/warning"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/logs"
	"github.com/jobd/jobd/store"
	"github.com/jobd/jobd/testdata/inotify"
)

// followed is a Job whose pods write logs.
type followed struct {
	*archive
	job *batchv1.Job
}

func newFollowed(t testing.TB) *followed {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "j", UID: "uid-j"}}
	f := &followed{archive: newArchive(t), job: j}
	f.watcher = &logs.Watcher{}
	f.job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c"}}
	return f
}

// pod is one of the Job's, whose container has not yet begun.
func (f *followed) pod(name string) *corev1.Pod {
	p := f.wrote("j", name, 0)
	p.Spec.Containers = f.job.Spec.Template.Spec.Containers
	return p
}

func is(p *corev1.Pod, state corev1.ContainerState) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", ContainerID: "containerd://" + p.Name, State: state}}
}

var (
	running = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	exited  = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
)

func (f *followed) complete() {
	f.job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
}

func (f *followed) save(pods ...*corev1.Pod) {
	f.must(f.store.Update(f.t.Context(), func(tx *store.Tx) error {
		f.put(tx, objects.Jobs, f.job)
		for _, p := range pods {
			f.put(tx, objects.Pods, p)
		}
		return nil
	}))
}

func (f *followed) put(tx *store.Tx, resource string, obj objects.Object) {
	value, err := scheme.Encode(obj)
	f.must(err)
	o := store.Object{Key: objects.Key(resource, obj), UID: string(obj.GetUID()), Value: value}
	for _, owner := range obj.GetOwnerReferences() {
		o.Owners = append(o.Owners, string(owner.UID))
	}
	tx.Put(o)
}

// says makes a pod print its name and a line.
func (f *followed) says(p *corev1.Pod, line string) {
	log, err := os.OpenFile(f.Path(p, "c", 0), os.O_APPEND|os.O_WRONLY, 0)
	f.must(err)
	_, err = fmt.Fprintf(log, "%s stdout F %s of %s\n", time.Now().UTC().Format(time.RFC3339Nano), line, p.Name)
	f.must(err)
	f.must(log.Close())
}

// Containers write before the store knows that they run, and a change that was on its way when its pod was looked at
// tells of a pod that does not run yet. What they write is followed all the same, and whole, whatever was left out of
// the logs that were there at first.
func TestFollowAJobWhosePodsHaveJustBegun(t *testing.T) {
	f := newFollowed(t)
	before := f.store.Version()
	first, second := f.pod("first"), f.pod("second")
	f.save(first, second)
	is(first, running)
	f.save(first)
	r, w := io.Pipe()
	l := &jobLogs{
		Logs: f.Logs, job: f.job, opts: &batch.JobLogOptions{Follow: true, TailLines: new(int64(1))},
		containers: []string{"c"}, out: &lineMerger{w: w, remaining: -1},
	}
	out := bufio.NewScanner(r)
	see := func(want string) {
		t.Helper()
		if !out.Scan() || out.Text() != want {
			t.Fatalf("%q, %v, want %q", out.Text(), out.Err(), want)
		}
	}
	f.says(first, "left out")
	f.says(first, "begin")
	var err error
	l.tails, err = l.tail(t.Context(), l.there(l.ofJob(f.job.UID)), 1)
	f.must(err)
	f.says(second, "zero")
	f.says(second, "begin")
	go func() { w.CloseWithError(l.follow(t.Context(), before)) }()
	see("begin of first")
	is(second, running)
	f.save(second)
	see("zero of second")
	see("begin of second") // and so all changes before were taken in
	f.says(first, "end")
	see("end of first")
	is(first, exited)
	is(second, exited)
	f.complete()
	f.save(first, second)
	if out.Scan() || out.Err() != nil {
		t.Errorf("after all: %q, %v", out.Text(), out.Err())
	}
}

// Who follows a Job of 300 pods sees all that each of them prints, while the whole machine may have no more than 128
// instances of inotify.
func TestFollowAJobOfManyPods(t *testing.T) {
	const n = 300
	f := newFollowed(t)
	all := make([]*corev1.Pod, n)
	for i := range all {
		all[i] = f.pod(fmt.Sprint("p", i))
		is(all[i], running)
	}
	write := func(line string) {
		for _, p := range all {
			f.says(p, line)
		}
	}
	f.save(all...)
	write("one")
	before := inotify.Instances(t)
	stream, err := f.OpenJob(t.Context(), f.job, &batch.JobLogOptions{Follow: true})
	f.must(err)
	defer stream.Close()
	out := bufio.NewScanner(stream)
	see := func(line string) {
		t.Helper()
		left := map[string]bool{}
		for _, p := range all {
			left[line+" of "+p.Name] = true
		}
		for range n {
			if !out.Scan() || !left[out.Text()] {
				t.Fatalf("%q, %v, and %d are to come", out.Text(), out.Err(), len(left))
			}
			delete(left, out.Text())
		}
	}
	see("one")
	if took := inotify.Instances(t) - before; took > 1 {
		t.Errorf("it takes %d instances of inotify", took)
	}
	write("two")
	see("two")
	write("three") // and they end before anybody has looked
	for _, p := range all {
		is(p, exited)
	}
	f.complete()
	f.save(all...)
	see("three")
	if out.Scan() || out.Err() != nil {
		t.Errorf("after all: %q, %v", out.Text(), out.Err())
	}
}

// BenchmarkFollowAJobOfManyPods takes in what becomes of one pod of a Job of 10,000, whose others have ended.
func BenchmarkFollowAJobOfManyPods(b *testing.B) {
	const n = 10_000
	f := newFollowed(b)
	all := make([]*corev1.Pod, n)
	for i := range all {
		all[i] = f.pod(fmt.Sprint("p", i))
		is(all[i], exited)
	}
	is(all[0], running)
	f.save(all...)
	_, w := io.Pipe()
	l := &jobLogs{
		Logs: f.Logs, job: f.job, opts: &batch.JobLogOptions{Follow: true},
		containers: []string{"c"}, out: &lineMerger{w: w, remaining: -1},
	}
	following := newFollowing(b.Context(), l)
	defer following.readers.Wait()
	defer following.stop()
	f.must(following.look())
	o := f.stored(all[0])
	b.ReportAllocs()
	for b.Loop() {
		f.must(following.change(store.Change{Object: o}))
	}
}

// stored is a pod as the store has it.
func (f *followed) stored(p *corev1.Pod) (o store.Object) {
	f.must(f.store.View(func(s *store.Snapshot) error {
		o, _ = s.Get(objects.Key(objects.Pods, p))
		return nil
	}))
	return o
}

// Who asks for it is told how much of a log was rotated away, with the source before it.
func TestALogThatWasRotatedAwaySaysSo(t *testing.T) {
	f := newFollowed(t)
	p := f.pod("a")
	log, err := logs.OpenFile(f.Path(p, "c", 0), logs.Limit{MaxSize: 100, MaxFiles: 2})
	f.must(err)
	for i := range 5 {
		_, err := fmt.Fprintf(log, "2026-01-02T03:04:0%d.5Z stdout F %s\n", i, strings.Repeat("x", 60))
		f.must(err)
	}
	f.must(log.Close())
	for missing, want := range map[bool]string{
		false: "",
		true: "[pod/a/c missing] the first 279 bytes of its log were removed by its rotation before they could be read," +
			" and are not shown\n",
	} {
		warned := &warnings{}
		stream, err := f.OpenJob(warning.WithWarningRecorder(t.Context(), warned), f.job, &batch.JobLogOptions{Missing: missing})
		f.must(err)
		got, err := io.ReadAll(stream)
		f.must(err)
		if want += strings.Repeat(strings.Repeat("x", 60)+"\n", 2); string(got) != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if missing != (len(warned.all) == 0) || !missing &&
			!strings.Contains(warned.all[0], "the first 279 bytes of the log of pod a (container c) were removed") {
			t.Errorf("it warns %q", warned.all)
		}
	}
	for rule, o := range map[string]*batch.JobLogOptions{
		"who wants the end":       {TailLines: new(int64(1))},
		"who wants what is later": {SinceTime: &metav1.Time{Time: time.Now()}},
	} {
		warned := &warnings{}
		stream, err := f.OpenJob(warning.WithWarningRecorder(t.Context(), warned), f.job, o)
		f.must(err)
		f.must(stream.Close())
		if len(warned.all) > 0 {
			t.Errorf("%s misses nothing: it warns %q", rule, warned.all)
		}
	}
}

// warnings are those that a client gets.
type warnings struct{ all []string }

func (w *warnings) AddWarning(_, text string) { w.all = append(w.all, text) }

// TestTailOfAJob: the last lines are those of the whole log of the Job, whichever pods they are from.
func TestTailOfAJob(t *testing.T) {
	f := newFollowed(t)
	line := func(second int, stream, text string) string {
		return fmt.Sprintf("2026-01-02T03:04:%02dZ %s %s\n", second, stream, text)
	}
	for pod, log := range map[string]string{
		"a": line(1, "stdout F", "a1") + line(5, "stdout F", "a5") + line(6, "stdout F", "a6"),
		"b": line(2, "stdout F", "b2") + line(3, "stderr F", "b3") + line(4, "stdout P", "b") + line(7, "stdout F", "7"),
		"c": "",
		"d": line(8, "stdout F", "d8") + line(9, "stderr F", "d9"),
	} {
		f.must(os.WriteFile(f.Path(f.pod(pod), "c", 0), []byte(log), 0o600))
	}
	f.must(os.Remove(f.Path(f.pod("e"), "c", 0))) // a log that is gone
	f.complete()
	f.save()
	for tail, want := range map[string]string{
		"0":        "",
		"1":        "d9",
		"2":        "d8 d9",
		"3":        "b7 d8 d9",
		"4":        "a6 b7 d8 d9",
		"6":        "a5 a6 b3 b7 d8 d9",
		"8":        "a1 a5 a6 b2 b3 b7 d8 d9",
		"99":       "a1 a5 a6 b2 b3 b7 d8 d9",
		"3 stdout": "a6 b7 d8",
		"2 stderr": "b3 d9",
	} {
		for _, follow := range []bool{false, true} {
			number, stream, _ := strings.Cut(tail, " ")
			n, err := strconv.ParseInt(number, 10, 64)
			f.must(err)
			o := &batch.JobLogOptions{TailLines: &n, Stream: stream, Follow: follow}
			answer, err := f.OpenJob(t.Context(), f.job, o)
			f.must(err)
			got, err := io.ReadAll(answer)
			f.must(err)
			if got := strings.Join(strings.Fields(string(got)), " "); got != want {
				t.Errorf("tail %s, follow %v: %q, want %q", tail, follow, got, want)
			}
		}
	}
}

// TestPrefixesTellPodsApart: the attempts of a Job, the pods of an index in one of them and the restarts of a container have words
// of their own, and what is usual has none. It is known after a restart of jobd, and of pods that are gone.
func TestPrefixesTellPodsApart(t *testing.T) {
	f := newFollowed(t)
	f.save()
	begin := func(name, index string, attempt, restarts int) *corev1.Pod {
		p := f.pod(name)
		f.must(os.RemoveAll(f.podDir(p)))
		f.drop(newLogRecord(p))
		if p.Annotations = map[string]string{}; index != "" {
			p.Annotations[batchv1.JobCompletionIndexAnnotation] = index
		}
		if attempt > 1 {
			p.Annotations[batch.AttemptAnnotation] = strconv.Itoa(attempt)
		}
		for n := range restarts + 1 {
			f.must(f.Begin(p, "c", n))
			f.must(os.MkdirAll(f.podDir(p)+"/c", 0o755))
			f.must(os.WriteFile(f.Path(p, "c", n), []byte("2026-01-02T03:04:05Z stdout F x\n"), 0o600))
		}
		return p
	}
	a := begin("a", "2", 1, 1)
	b := begin("b", "2", 1, 0)
	begin("c", "3", 1, 0)
	begin("d", "2", 2, 0)
	begin("e", "", 2, 0)
	f.must(f.store.Update(t.Context(), func(tx *store.Tx) error { f.put(tx, objects.Pods, b); return nil }))
	f.ends(a)
	for range 2 {
		stream, err := f.OpenJob(t.Context(), f.job, &batch.JobLogOptions{Prefix: true, AllRestarts: true})
		f.must(err)
		got, err := io.ReadAll(stream)
		f.must(err)
		want := "[pod/e/c attempt=2 stdout] x\n[pod/a/c index=2 stdout] x\n[pod/a/c index=2 restart=1 stdout] x\n[pod/b/c index=2 try=2 stdout] x\n" +
			"[pod/d/c index=2 attempt=2 stdout] x\n[pod/c/c index=3 stdout] x\n"
		if string(got) != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		f.open(f.podLogs)
	}
	g := begin("g", "2", 1, 0)
	if r, _ := f.ofPod("uid-j", g.UID); r.Try != 3 {
		t.Errorf("after a restart of jobd, the third pod of an index is number %d", r.Try)
	}
}
