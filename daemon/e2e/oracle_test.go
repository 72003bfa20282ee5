package e2e

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/testdata/images"
	"github.com/jobd/jobd/testdata/oracle"
)

// What a real cluster did (testdata/oracle) is done again with real containers: the manifests are posted as they are,
// users act in the recorded order, and everything else is left to jobd. Compared are
//
//   - the sequence of the Job's states: generation, finalizers, deletion, conditions with type, status, reason and
//     message, all counters and index lists;
//   - pods: index, failure count, order of creation, exit code, restarts, final phase, owner, whether they are gone;
//   - events of the Job and of its pods: type, reason, message, count;
//   - the metrics of the Job controller, after all of it.
//
// Times are not compared, their order is. A container begins its command only when all pods that were created with
// its own run, and, unless it is to be ended by a deletion, when those that ended before it there have ended here, what
// users did before that is done, and those that a deletion is to end are ready for it; beside others that succeed, those
// that fail do so last. Tolerated is:
const (
	// A cluster looks at a Job once a second at most. States of ours that are not recorded must lie between the
	// recorded ones on both sides, in every counter; pods that cease to be active may be terminating meanwhile.
	//
	// There a pod that ends first ceases to be ready, and is terminal a second later; here both is one change. And what
	// runs for less than a second may never be ready there. So of ready the most is compared that was reached while
	// all else stayed as it was: here it may be more, up to active, but not less.
	//
	// Of a recorded state that lies between its neighbours too, it is chance that it was seen.
	//
	// Back-off begins with 4 seconds instead of 10 and ends with 10 instead of 600 (the flags of the daemon): never-b6
	// would take 11 minutes.
	oracleBackoff, oracleBackoffCap = "4s", "10s"
)

// different is what differs in one scenario, and why.
var different = map[string]struct {
	why string
	// terminating: how many pods are, and whether ended ones are deleted. events: reasons. counts: of events.
	terminating, counts bool
	events              []string
}{
	"image-missing": {
		why:         "nothing runs in the pod, so it ends here with its deletion; a kubelet takes a second for it. How often the image is looked for until then is chance",
		terminating: true, counts: true,
	},
	"pfp-failjob": {
		why:         "three pods end within 63 ms; here the first one decides, and the others are deleted while they end",
		terminating: true, events: []string{"SuccessfulDelete", "Killing"},
	},
	"onfailure-b0": {
		why:         "here the last restart is cut short at once, or has ended and nothing is left to end; there it ends before the controller looks",
		terminating: true, events: []string{"Killing", "BackOff"},
	},
	"onfailure-b3": {
		why:         "as onfailure-b0; and a kubelet says BackOff again and again, at times of its own",
		terminating: true, events: []string{"Killing", "BackOff"},
	},
}

// TestOracleOnContainers has all scenarios at once in one daemon, each in a namespace of its own.
func TestOracleOnContainers(t *testing.T) {
	scenarios, err := oracle.Scenarios("../../testdata/oracle/scenarios")
	if err != nil {
		t.Fatal(err)
	}
	d := start(t, "--pod-backoff-base", oracleBackoff, "--pod-backoff-cap", oracleBackoffCap)
	busybox := func() (images.Image, error) {
		return images.Busybox("registry.k8s.io/e2e-test-images/busybox:1.37.0-2")
	}
	d.importImage(busybox())
	d.importImage(images.Pause("registry.k8s.io/pause:3.10.2"))
	cluster := &recorder{d: d, lives: map[string]*life{}}
	for _, s := range scenarios {
		cluster.lives["or-"+s.Name] = &life{d: d, Scenario: s, dir: t.TempDir(), gone: map[types.UID]bool{}, opened: map[types.UID]bool{}}
	}
	cluster.follow(t)
	var playing sync.WaitGroup
	for _, l := range cluster.lives {
		playing.Go(func() { l.err = l.play() })
	}
	playing.Wait()
	t.Run("metrics", func(t *testing.T) {
		metrics := d.jobctl("get", "--raw", "/metrics")
		for name, n := range metricsOf(scenarios) {
			if want := fmt.Sprintf("\n%s %d\n", name, n); !strings.Contains(metrics, want) {
				t.Errorf("they have not%s", want)
			}
		}
		for _, name := range []string{
			`job_controller_job_syncs_total{action="pods_created",completion_mode="Indexed",result="success"}`,
			`job_controller_job_syncs_total{action="pods_deleted",completion_mode="NonIndexed",result="success"}`,
			`job_controller_job_sync_duration_seconds_count{action="tracking",completion_mode="NonIndexed",result="success"}`,
			`job_controller_job_pods_creation_total{reason="new",status="succeeded"}`,
			`job_controller_job_pods_creation_total{reason="recreate_failed",status="succeeded"}`,
			`job_controller_job_pods_creation_total{reason="recreate_terminating_or_failed",status="succeeded"}`,
			`job_controller_pod_failures_handled_by_failure_policy_total{action="FailIndex"}`,
			`job_controller_pod_failures_handled_by_failure_policy_total{action="FailJob"}`,
			`job_controller_pod_failures_handled_by_failure_policy_total{action="Ignore"}`,
			`job_controller_terminated_pods_tracking_finalizer_total{event="add"}`,
			`job_controller_terminated_pods_tracking_finalizer_total{event="delete"}`,
			`ttl_after_finished_controller_job_deletion_duration_seconds_count`,
		} {
			if !strings.Contains(metrics, "\n"+name+" ") {
				t.Errorf("they have no %s", name)
			}
		}
		if t.Failed() {
			t.Log(regexp.MustCompile("(?m)^(job|ttl)_.*_(total|count).*").FindAllString(metrics, -1))
		}
	})
	for _, s := range scenarios {
		t.Run(s.Name, func(t *testing.T) {
			l := cluster.lives["or-"+s.Name]
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.err != nil {
				t.Error(l.err)
			}
			l.compareStates(t)
			l.comparePods(t)
			l.compareEvents(t)
			if t.Failed() {
				for _, r := range l.ours() {
					t.Logf("ours   %s", describe(&r))
				}
				for _, r := range l.recorded() {
					t.Logf("theirs %s", describe(&r))
				}
			}
		})
	}
}

// metricsOf gives the metrics of a cluster's Job controller after all that was recorded.
func metricsOf(scenarios []*oracle.Scenario) map[string]int {
	m := map[string]int{}
	add := func(n int, format string, args ...any) {
		if n > 0 {
			m["job_controller_"+fmt.Sprintf(format, args...)] += n
		}
	}
	for _, s := range scenarios {
		spec, end := &s.Manifest.Spec, s.Timeline[len(s.Timeline)-1].Status
		mode := ptr.Deref(spec.CompletionMode, batchv1.NonIndexedCompletion)
		if spec.ManagedBy != nil {
			add(1, "jobs_by_external_controller_total{controller_name=%q}", *spec.ManagedBy)
		}
		for _, c := range end.Conditions {
			switch c.Type {
			case batchv1.JobComplete:
				add(1, "jobs_finished_total{completion_mode=%q,reason=%q,result=%q}", mode, c.Reason, "succeeded")
			case batchv1.JobFailed:
				add(1, "jobs_finished_total{completion_mode=%q,reason=%q,result=%q}", mode, c.Reason, "failed")
			}
		}
		add(int(end.Succeeded), "job_pods_finished_total{completion_mode=%q,result=%q}", mode, "succeeded")
		add(int(end.Failed), "job_pods_finished_total{completion_mode=%q,result=%q}", mode, "failed")
		if mode == batchv1.IndexedCompletion {
			limit := "global"
			if spec.BackoffLimitPerIndex != nil {
				limit = "perIndex"
			}
			add(int(end.Succeeded), "job_finished_indexes_total{backoffLimit=%q,status=%q}", limit, "succeeded")
			if failed := ptr.Deref(end.FailedIndexes, ""); failed != "" {
				add(strings.Count(failed, ",")+1, "job_finished_indexes_total{backoffLimit=%q,status=%q}", limit, "failed")
			}
		}
	}
	return m
}

// life is a scenario as it is lived here.
type life struct {
	d *daemon
	*oracle.Scenario
	dir string // of the host: its gate, and what the pods remember
	err error

	mu     sync.Mutex
	states []oracle.Revision
	pods   []*corev1.Pod // as last seen, in the order of creation
	gone   map[types.UID]bool
	opened map[types.UID]bool
	done   int // actions
	events []corev1.Event
}

func (l *life) namespace() string { return "or-" + l.Name }

// recorder follows all Jobs and pods.
type recorder struct {
	d     *daemon
	lives map[string]*life
}

func (r *recorder) follow(t *testing.T) {
	jobs, err := r.d.BatchV1().Jobs("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := r.d.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var following sync.WaitGroup
	each := func(w watch.Interface, f func(*life, watch.Event)) {
		following.Go(func() {
			for e := range w.ResultChan() {
				if o, ok := e.Object.(metav1.Object); ok && r.lives[o.GetNamespace()] != nil {
					l := r.lives[o.GetNamespace()]
					l.mu.Lock()
					f(l, e)
					l.mu.Unlock()
				}
			}
		})
	}
	each(jobs, func(l *life, e watch.Event) {
		j := e.Object.(*batchv1.Job)
		l.states = append(l.states, oracle.Revision{
			Event: string(e.Type), Generation: j.Generation, Finalizers: j.Finalizers, DeletionTimestamp: j.DeletionTimestamp, Status: j.Status,
		})
	})
	each(pods, func(l *life, e watch.Event) {
		p := e.Object.(*corev1.Pod)
		i := slices.IndexFunc(l.pods, func(q *corev1.Pod) bool { return q.UID == p.UID })
		if i < 0 {
			i, l.pods = len(l.pods), append(l.pods, nil)
		}
		l.pods[i] = p
		l.gone[p.UID] = e.Type == watch.Deleted
		l.open()
	})
	t.Cleanup(func() {
		jobs.Stop()
		pods.Stop()
		following.Wait()
	})
}

// manifest is the scenario's, with the gate in front of its commands.
func (l *life) manifest() *batchv1.Job {
	j := l.Manifest.DeepCopy()
	spec := &j.Spec.Template.Spec
	for i := range spec.Volumes {
		spec.Volumes[i].HostPath.Path = filepath.Join(l.dir, "memory")
	}
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "gate", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: l.gate()}}})
	for i := range spec.Containers {
		c := &spec.Containers[i]
		if len(c.Command) < 3 || c.Image != busyboxThere {
			continue
		}
		if l.Name == "workqueue" {
			c.Command[2] = "exit 0" // it draws from the pod's name how long to sleep: there none did
		}
		c.Command[2] = "until [ -e /gate/$POD ]; do sleep 0.05; done; " + trap.ReplaceAllString(c.Command[2], "$0 : > /gate/$$POD.traps;")
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "gate", MountPath: "/gate"})
		c.Env = append(c.Env, corev1.EnvVar{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}})
	}
	return j
}

// trap is where a command begins to catch the signal that a deletion sends.
var trap = regexp.MustCompile(`trap '[^']*' TERM;`)

// ready tells whether the pods that are to be ended by a deletion have come to where their command is ready for it.
func (l *life) ready() bool {
	if !trap.MatchString(strings.Join(l.Manifest.Spec.Template.Spec.Containers[0].Command, " ")) {
		return true
	}
	for n, recorded := range l.Pods.Summary {
		if p := l.pod(n); p != nil && p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil && l.deleted(recorded.Name) > 0 {
			if _, err := os.Stat(filepath.Join(l.gate(), p.Name+".traps")); err != nil {
				return false
			}
		}
	}
	return true
}

const busyboxThere = "registry.k8s.io/e2e-test-images/busybox:1.37.0-2"

func (l *life) gate() string { return filepath.Join(l.dir, "gate") }

// open lets pods begin whose turn it is.
func (l *life) open() {
	for n, recorded := range l.Pods.Summary {
		if p := l.pod(n); p != nil && p.Status.Phase == corev1.PodRunning && !l.opened[p.UID] && l.turn(n, recorded) {
			l.opened[p.UID] = os.WriteFile(filepath.Join(l.gate(), p.Name), nil, 0o644) == nil
		}
	}
}

const (
	// sideBySide is how far apart a cluster creates pods by one decision.
	sideBySide = 0.5
	// justBefore is how far apart pods end that were seen as one change.
	justBefore = 0.01
)

func (l *life) turn(n int, recorded oracle.Pod) bool {
	end := l.ended(recorded.Name)
	failsLast := func(p, beside oracle.Pod) bool {
		return p.FinalPhase == corev1.PodFailed && beside.FinalPhase == corev1.PodSucceeded && l.deleted(p.Name) == 0
	}
	for m, other := range l.Pods.Summary {
		q := l.pod(m)
		d := other.CreatedAt - recorded.CreatedAt
		beside := -sideBySide < d && d < sideBySide
		if beside && (q == nil || q.Status.Phase == corev1.PodPending) {
			return false
		}
		// The back-off of a failure must not be over before those that succeed beside it have ended.
		if beside && failsLast(recorded, other) && !terminal(q) {
			return false
		}
		if l.deleted(recorded.Name) > 0 || beside && failsLast(other, recorded) {
			continue
		}
		if before := end - l.ended(other.Name); before > max(justBefore, l.Together().Seconds()) &&
			(q == nil || !terminal(q) || before > 1 && !earlierSecond(q)) {
			return false
		}
	}
	return l.deleted(recorded.Name) > 0 || l.ready() && (l.done == len(l.Pods.Actions) || l.Pods.Actions[l.done].T > end)
}

// earlierSecond tells whether a pod has ended in an earlier second than this one. Back-off asks which end came later, in
// whole seconds.
func earlierSecond(p *corev1.Pod) bool {
	for _, c := range p.Status.ContainerStatuses {
		if e := c.State.Terminated; e != nil && !e.FinishedAt.Time.Before(time.Now().Truncate(time.Second)) {
			return false
		}
	}
	return true
}

func terminal(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// ended is when a recorded pod became terminal, 1e9 for never.
func (l *life) ended(pod string) float64 {
	for _, c := range l.Pods.Timelines[pod] {
		if c.Phase == string(corev1.PodSucceeded) || c.Phase == string(corev1.PodFailed) {
			return c.T
		}
	}
	return 1e9
}

// deleted is when a recorded pod's deletion was asked for, 0 for never.
func (l *life) deleted(pod string) float64 {
	for _, c := range l.Pods.Timelines[pod] {
		if c.Deletion != nil {
			return c.T
		}
	}
	return 0
}

// pod gives the one that stands for the n-th recorded one: of the same index, as many before it. Nil if there is none yet.
func (l *life) pod(n int) *corev1.Pod {
	index := ptr.Deref(l.Pods.Summary[n].Index, "")
	before := 0
	for _, p := range l.Pods.Summary[:n] {
		if ptr.Deref(p.Index, "") == index {
			before++
		}
	}
	for _, p := range l.pods {
		if p.Annotations[batchv1.JobCompletionIndexAnnotation] == index {
			if before == 0 {
				return p
			}
			before--
		}
	}
	return nil
}

// play does what users did, each thing when the Job is as it was then, and returns when all is as it was at the end.
func (l *life) play() error {
	ctx := l.d.t.Context()
	if err := os.Mkdir(l.gate(), 0o755); err != nil {
		return err
	}
	if _, err := l.d.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace()}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	jobs, pods := l.d.BatchV1().Jobs(l.namespace()), l.d.CoreV1().Pods(l.namespace())
	if _, err := jobs.Create(ctx, l.manifest(), metav1.CreateOptions{}); err != nil {
		return err
	}
	for n, a := range l.Pods.Actions {
		if len(a.Action) == 0 {
			continue
		}
		what, _ := a.Action[0].(string)
		if what != "running" {
			if err := l.await(fmt.Sprintf("%v at %v", a.Action, a.T), func() bool { return l.like(a.T) && l.ready() }); err != nil {
				return err
			}
		}
		var err error
		switch what {
		case "running":
			err = l.await(fmt.Sprint(a.Action), func() bool {
				running := 0
				for _, p := range l.pods {
					if p.Status.Phase == corev1.PodRunning {
						running++
					}
				}
				return float64(running) >= a.Action[1].(float64)
			})
		case "patch":
			var patch []byte
			if patch, err = json.Marshal(a.Action[1]); err == nil {
				_, err = jobs.Patch(ctx, l.Name, types.MergePatchType, patch, metav1.PatchOptions{})
			}
		case "delete":
			err = jobs.Delete(ctx, l.Name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletionPropagation(a.Action[1].(string)))})
		case "delete pod":
			err = pods.Delete(ctx, l.named(a.Action[1].(string)), metav1.DeleteOptions{})
		case "evict":
			err = pods.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: l.named(a.Action[1].(string))}})
		default:
			err = errors.New("an unknown action")
		}
		if err != nil {
			return fmt.Errorf("%v: %w", a.Action, err)
		}
		l.mu.Lock()
		l.done = n + 1
		l.open()
		l.mu.Unlock()
	}
	l.mu.Lock()
	l.done = len(l.Pods.Actions)
	l.mu.Unlock()
	if err := l.await("the end of the Job", func() bool {
		last := l.Timeline[len(l.Timeline)-1]
		return l.like(last.T) && (last.Event == "DELETED") == l.isGone()
	}); err != nil {
		return err
	}
	if err := l.await("the end of the pods", func() bool {
		for n, p := range l.Pods.Summary {
			if q := l.pod(n); q == nil || l.gone[q.UID] != p.Gone && !different[l.Name].terminating || q.Status.Phase != p.FinalPhase {
				return false
			}
		}
		return true
	}); err != nil {
		return err
	}
	list, err := l.d.CoreV1().Events(l.namespace()).List(ctx, metav1.ListOptions{})
	if err == nil {
		l.mu.Lock()
		l.events = list.Items
		l.mu.Unlock()
	}
	return err
}

// named is the name here of a recorded pod.
func (l *life) named(recorded string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := slices.IndexFunc(l.Pods.Summary, func(p oracle.Pod) bool { return p.Name == recorded })
	return l.pod(n).Name
}

// await waits until something is so.
func (l *life) await(what string, is func() bool) error {
	so := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open()
		return len(l.states) > 0 && is()
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if so() {
			return nil
		}
	}
	return fmt.Errorf("not within %v: %s", patience, what)
}

// like tells whether the Job is as it was recorded last before a time.
func (l *life) like(t float64) bool {
	var want *oracle.Revision
	for i, r := range l.recorded() {
		if r.T <= t {
			want = &l.recorded()[i]
		}
	}
	return want == nil || alike(want, l.view(&l.states[len(l.states)-1]))
}

// recorded are the distinct states of the Job there, each with the most that was ready meanwhile.
func (l *life) recorded() []oracle.Revision {
	return l.distinct(l.Counted(func(a, b *oracle.Revision) bool { return alike(a, b) && ptr.Equal(a.Status.Ready, b.Status.Ready) }))
}

func (l *life) distinct(all []oracle.Revision) (distinct []oracle.Revision) {
	for i := range all {
		r := l.view(&all[i])
		if n := len(distinct) - 1; n < 0 || !alike(&distinct[n], r) {
			distinct = append(distinct, *r)
		} else if last := &distinct[n].Status; ptr.Deref(r.Status.Ready, 0) > ptr.Deref(last.Ready, 0) {
			last.Ready = r.Status.Ready
		}
	}
	return distinct
}

// view is a state without names of pods.
func (l *life) view(r *oracle.Revision) *oracle.Revision {
	v := *r
	if different[l.Name].terminating && v.Status.Terminating != nil {
		v.Status.Terminating = ptr.To[int32](0)
	}
	v.Status.Conditions = slices.Clone(v.Status.Conditions)
	for i := range v.Status.Conditions {
		c := &v.Status.Conditions[i]
		c.Message = l.unnamed(c.Message)
	}
	return &v
}

// unnamed replaces the names of pods by what they have in common here and there.
func (l *life) unnamed(s string) string {
	s = l.AnyPod(s)
	for n, recorded := range l.Pods.Summary {
		what := "(pod of index " + ptr.Deref(recorded.Index, "-") + ")"
		s = strings.ReplaceAll(s, recorded.Name, what)
		if p := l.pod(n); p != nil {
			s = strings.ReplaceAll(s, p.Name, what)
		}
	}
	return s
}

// alike compares states of a Job but for ready.
func alike(a, b *oracle.Revision) bool {
	s, q := &a.Status, &b.Status
	return a.Generation == b.Generation && slices.Equal(a.Finalizers, b.Finalizers) &&
		(a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		s.Active == q.Active && s.Succeeded == q.Succeeded && s.Failed == q.Failed &&
		ptr.Equal(s.Terminating, q.Terminating) && (s.Ready == nil) == (q.Ready == nil) &&
		s.CompletedIndexes == q.CompletedIndexes && ptr.Equal(s.FailedIndexes, q.FailedIndexes) &&
		(s.UncountedTerminatedPods == nil) == (q.UncountedTerminatedPods == nil) &&
		(s.StartTime == nil) == (q.StartTime == nil) && (s.CompletionTime == nil) == (q.CompletionTime == nil) &&
		sameConditions(s, q)
}

func sameConditions(s, q *batchv1.JobStatus) bool {
	return slices.EqualFunc(s.Conditions, q.Conditions, func(c, d batchv1.JobCondition) bool {
		return c.Type == d.Type && c.Status == d.Status && c.Reason == d.Reason && c.Message == d.Message
	})
}

func describe(r *oracle.Revision) string {
	s := r.Status
	for i := range s.Conditions {
		s.Conditions[i].LastProbeTime, s.Conditions[i].LastTransitionTime = metav1.Time{}, metav1.Time{}
	}
	data, _ := json.Marshal(s)
	return fmt.Sprintf("%s generation %d %v deleting %v %s", r.Event, r.Generation, r.Finalizers, r.DeletionTimestamp != nil, data)
}

func (l *life) compareStates(t *testing.T) {
	theirs, ours := l.recorded(), l.ours()
	next := 0
	for i := range theirs {
		found := slices.IndexFunc(ours[next:], func(r oracle.Revision) bool {
			return alike(&theirs[i], &r) && ptr.Deref(r.Status.Ready, 0) >= ptr.Deref(theirs[i].Status.Ready, 0)
		})
		if found < 0 && i > 0 && i+1 < len(theirs) && between(&theirs[i-1], &theirs[i], &theirs[i+1]) {
			continue
		}
		if found < 0 {
			t.Errorf("there is no state as at %.3f: %s", theirs[i].T, describe(&theirs[i]))
			return
		}
		for n := range found {
			if r := &ours[next+n]; i == 0 || !between(&theirs[i-1], r, &theirs[i]) {
				t.Errorf("there was no state like this, nor would one lie between: %s", describe(r))
			}
		}
		next += found + 1
	}
	for _, r := range ours[next:] {
		t.Errorf("there it ended before this: %s", describe(&r))
	}
	for _, r := range ours {
		if ptr.Deref(r.Status.Ready, 0) > r.Status.Active {
			t.Errorf("more are ready than active: %s", describe(&r))
		}
	}
	if gone := l.isGone(); gone != (l.Timeline[len(l.Timeline)-1].Event == "DELETED") {
		t.Errorf("gone: %v", gone)
	}
}

// ours are the distinct states here.
func (l *life) ours() []oracle.Revision {
	return l.distinct(slices.DeleteFunc(slices.Clone(l.states), func(r oracle.Revision) bool { return r.Event == "DELETED" }))
}

func (l *life) isGone() bool { return l.states[len(l.states)-1].Event == "DELETED" }

// between tells whether a state can come between two others.
func between(a, b, c *oracle.Revision) bool {
	in := func(of func(*batchv1.JobStatus) int32) bool {
		x, y, z := of(&a.Status), of(&b.Status), of(&c.Status)
		return min(x, z) <= y && y <= max(x, z)
	}
	like := func(r *oracle.Revision) bool {
		return r.Generation == b.Generation && (r.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) && sameConditions(&r.Status, &b.Status)
	}
	return (like(a) || like(c)) &&
		in(func(s *batchv1.JobStatus) int32 { return s.Active }) &&
		in(func(s *batchv1.JobStatus) int32 { return s.Succeeded }) &&
		in(func(s *batchv1.JobStatus) int32 { return s.Failed }) &&
		ptr.Deref(b.Status.Terminating, 0) <= max(ptr.Deref(a.Status.Terminating, 0)+max(0, a.Status.Active-b.Status.Active), ptr.Deref(c.Status.Terminating, 0))
}

// outcome is what became of a pod.
type outcome struct {
	Index, FailureCount string
	Phase               corev1.PodPhase
	Exit, Restarts      int32
	Owners, Finalizers  int
	Gone                bool
}

func (l *life) comparePods(t *testing.T) {
	var theirs, ours []outcome
	for _, p := range l.Pods.Summary {
		o := outcome{Index: ptr.Deref(p.Index, ""), FailureCount: ptr.Deref(p.FailureCount, ""), Phase: p.FinalPhase, Gone: p.Gone}
		for _, c := range l.Pods.Timelines[p.Name] {
			if c.Event != "DELETED" {
				o.Exit, o.Restarts = ptr.Deref(c.Exit, 0), ptr.Deref(c.Restarts, 0)
				o.Owners, o.Finalizers = len(c.Owner), len(c.Finalizers)
			}
		}
		theirs = append(theirs, o)
	}
	for _, p := range l.pods {
		o := outcome{
			Index: p.Annotations[batchv1.JobCompletionIndexAnnotation], FailureCount: p.Annotations[batchv1.JobIndexFailureCountAnnotation],
			Phase: p.Status.Phase, Gone: l.gone[p.UID], Owners: len(p.OwnerReferences), Finalizers: len(p.Finalizers),
		}
		if s := p.Status.ContainerStatuses; len(s) > 0 {
			o.Restarts = s[0].RestartCount
			if e := s[0].State.Terminated; e != nil {
				o.Exit = e.ExitCode
			}
		}
		ours = append(ours, o)
	}
	// Created side by side, their order is chance.
	for start := 0; start < len(theirs); {
		end := start + 1
		for end < len(theirs) && l.Pods.Summary[end].CreatedAt-l.Pods.Summary[start].CreatedAt < sideBySide {
			end++
		}
		for _, list := range [][]outcome{theirs, ours} {
			slices.SortFunc(list[min(start, len(list)):min(end, len(list))], func(a, b outcome) int {
				return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Phase, b.Phase))
			})
		}
		start = end
	}
	for _, list := range [][]outcome{theirs, ours} {
		for i := range list {
			if list[i].Gone {
				list[i].Finalizers = 0 // whether it was seen without its last one
			}
			if different[l.Name].terminating {
				list[i].Gone = false
			}
		}
	}
	if diff := gocmp.Diff(theirs, ours); diff != "" {
		t.Errorf("pods (- the cluster's, + ours):\n%s", diff)
	}
}

func (l *life) compareEvents(t *testing.T) {
	ours, theirs := map[string]int32{}, map[string]int32{}
	for _, e := range l.Events {
		l.count(theirs, e.Object, e.Type, e.Reason, e.Message, int32(ptr.Deref(e.Count, 1)))
	}
	for _, e := range l.events {
		l.count(ours, e.InvolvedObject.Kind+"/"+e.InvolvedObject.Name, e.Type, e.Reason, e.Message, max(1, e.Count))
	}
	if diff := gocmp.Diff(theirs, ours); diff != "" {
		t.Errorf("events (- the cluster's, + ours):\n%s", diff)
	}
}

// worded are parts of messages that are those of the machine.
var worded = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`(Successfully assigned \S+) to \S+$`), "$1 to the node"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`), "UID"},
	{regexp.MustCompile(`^Error: .*/nonexistent.*`), "Error: the OCI runtime's words for /nonexistent"},
}

func (l *life) count(events map[string]int32, object, kind, reason, message string, n int32) {
	if slices.Contains(different[l.Name].events, reason) {
		return
	}
	for _, w := range worded {
		message = w.what.ReplaceAllString(message, w.as)
	}
	if different[l.Name].counts {
		n = 0
	}
	events[l.unnamed(strings.Join([]string{object, kind, reason, message}, " "))] += n
}
