package progress

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/picture"
	"github.com/jobd/jobd/api/podspec"
)

// PodState is what a pod is doing, in one word.
type PodState string

// The states of a pod, in the order in which it has them.
const (
	Pending   PodState = "pending"  // it has no place on the machine yet, or waits for something else
	Starting  PodState = "starting" // images are pulled, init containers run
	Running   PodState = "running"
	Stopping  PodState = "stopping"
	Succeeded PodState = "succeeded"
	Failed    PodState = "failed"
	Gone      PodState = "gone" // deleted before it had ended
)

// over reports whether a pod in this state will not run again.
func (s PodState) over() bool { return s == Succeeded || s == Failed || s == Gone }

// Pod is what is known of a pod.
type Pod struct {
	Name  string
	UID   types.UID
	Index *int
	// Values are those of its index.
	Values []batch.IndexValue
	State  PodState
	// Reason and Message say why it waits or has failed, as the API has it.
	Reason, Message string
	// Image is what is being waited for, if a container waits for its image.
	Image    string
	ExitCode *int32 // of the container that failed
	Created  time.Time
	// Started is when its first container did, as far as that is known: before that it has waited, for its images above all.
	Started  time.Time
	Finished time.Time
	Restarts int32
	// Deleted says that it is going away: it was stopped, unless it had ended before.
	Deleted bool

	// began and ended are when it was seen to begin and to end; zero if that was not seen. The API has whole seconds.
	began, ended time.Time
}

// Model is what is known of a Job, its pods and their images. The zero value is empty. It may be used by several
// goroutines at a time.
type Model struct {
	mu       sync.Mutex
	job      *batchv1.Job
	images   []Transfer
	pods     map[types.UID]*Pod // replaced and never changed in place
	order    []types.UID
	jobState string
	why      string // why the Job waits
	values   *batch.IndexValues
	far      map[string]string // how far pods that have not ended say they are, by their names
	ran      bool              // a pod of it has been running
}

// Created is in the first event of a new Job.
const Created = "created"

var waiting, running = strings.ToLower(batch.StateWaiting), strings.ToLower(batch.StateRunning)

// SetJob takes in the Job as it is now, and returns what is new.
func (m *Model) SetJob(j *batchv1.Job, now time.Time) []Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.job
	m.job = j
	state, reason, message := JobState(j)
	was := m.jobState
	m.jobState = state
	if before == nil && state == waiting && j.Status.StartTime == nil {
		e := m.jobEvent(now)
		e.State = Created
		return []Event{e}
	}
	same := state == was
	switch {
	case before == nil:
	case same && state == waiting && !m.ran && CountsOf(before).Failed == CountsOf(j).Failed:
		return nil // its first pods are being started, which is what everybody expects
	case same, m.ran && (was == waiting || was == running) && (state == waiting || state == running):
		then, now := CountsOf(before), CountsOf(j)
		then.Ready = now.Ready // comes and goes with each pod, whose own events say it
		if then == now {
			return nil
		}
	}
	m.ran = m.ran || state == running
	e := m.jobEvent(now)
	if !same {
		e.Reason, e.Message = reason, message
	}
	return []Event{e}
}

func (m *Model) jobEvent(now time.Time) Event {
	c := CountsOf(m.job)
	e := Event{Time: now, Type: "job", Namespace: m.job.Namespace, Name: m.job.Name, State: m.jobState, Counts: &c}
	if end := m.finished(); !end.IsZero() && m.job.Status.StartTime != nil {
		e.Seconds = end.Sub(m.job.Status.StartTime.Time).Seconds()
	}
	return e
}

// finished returns when the Job has finished, zero if it has not.
func (m *Model) finished() time.Time {
	if c := batch.End(&m.job.Status); c != nil {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// JobState returns the state of a Job (batch.State) as a word in a sentence, and why it has ended or is about to.
func JobState(j *batchv1.Job) (state, reason, message string) {
	if c := cmp.Or(batch.End(&j.Status), batch.Ending(&j.Status)); c != nil {
		reason, message = c.Reason, c.Message
	}
	return strings.ToLower(batch.State(j)), reason, message
}

// SawProgress takes in a line that a pod has printed, and reports whether it says how far the pod is (picture.ParseProgress).
func (m *Model) SawProgress(pod string, line []byte) bool {
	if !bytes.HasPrefix(line, []byte("::")) { // as most are
		return false
	}
	percent, words, ok := picture.ParseProgress(string(line))
	if !ok {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.far == nil {
		m.far = map[string]string{}
	}
	m.far[pod] = strings.TrimSpace(fmt.Sprintf("%d%% %s", percent, words))
	return true
}

// Far says how far a pod is, by its own words; empty if it has not said that.
func (m *Model) Far(pod string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.far[pod]
}

// SetValues takes in the values of the Job's indexes. It is called before there are pods.
func (m *Model) SetValues(values *batch.IndexValues) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values = values
}

// Values returns the values of the Job's indexes; nil if it has none.
func (m *Model) Values() *batch.IndexValues {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values
}

// SetWhy takes in why the Job waits.
func (m *Model) SetWhy(why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.why = why
}

// Why returns why the Job waits; empty if it does not, or that is not known.
func (m *Model) Why() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.jobState != waiting {
		return ""
	}
	return m.why
}

// CountsOf returns the counts of a Job.
func CountsOf(j *batchv1.Job) Counts {
	c := Counts{Active: j.Status.Active, Succeeded: j.Status.Succeeded, Failed: j.Status.Failed}
	if j.Status.Ready != nil {
		c.Ready = *j.Status.Ready
	}
	if j.Spec.Completions != nil {
		c.Completions = *j.Spec.Completions
	}
	return c
}

// SetPod takes in a pod as it is now, and returns what is new.
func (m *Model) SetPod(p *corev1.Pod, now time.Time) []Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.setPod(p, now)
}

func (m *Model) setPod(p *corev1.Pod, now time.Time) []Event {
	if m.pods == nil {
		m.pods = map[types.UID]*Pod{}
	}
	next := PodOf(p)
	if next.Index != nil {
		next.Values = m.values.Of(*next.Index)
	}
	before := m.pods[p.UID]
	if before == nil {
		m.order = append(m.order, p.UID)
	} else {
		next.began, next.ended = before.began, before.ended
		if !before.Started.IsZero() { // the API knows the last two attempts of a container
			next.Started = before.Started
		}
	}
	if next.State.over() {
		delete(m.far, p.Name)
	}
	next.seen(now)
	m.pods[p.UID] = &next
	if before != nil && before.State == next.State && before.Reason == next.Reason && before.Restarts == next.Restarts {
		return nil
	}
	return []Event{next.event(p.Namespace, now)}
}

// DeletePod takes in that a pod is gone, and returns what is new. It remembers the pod.
func (m *Model) DeletePod(p *corev1.Pod, now time.Time) []Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	events := m.setPod(p, now) // its last state, which may not have been seen
	if gone := *m.pods[p.UID]; !gone.State.over() {
		gone.State, gone.Finished = Gone, now
		m.pods[p.UID] = &gone
		return []Event{gone.event(p.Namespace, now)}
	}
	return events
}

func (p *Pod) event(namespace string, now time.Time) Event {
	e := Event{
		Time: now, Type: "pod", Namespace: namespace, Name: p.Name, State: string(p.State),
		Reason: p.Reason, Message: p.Message, Index: p.Index, Values: p.Values, ExitCode: p.ExitCode,
	}
	if p.State.over() {
		e.Seconds = p.Duration(now).Seconds()
	}
	return e
}

// seen notes when the pod began and ended, if that happens now.
func (p *Pod) seen(now time.Time) {
	since := now.Sub(p.Started)
	switch {
	case !p.State.over() && p.began.IsZero() && since >= 0 && since < 2*time.Second: // else it has begun before
		p.began = now
	case p.State.over() && p.ended.IsZero() && !p.began.IsZero():
		p.ended = now
	}
}

// Duration returns how long the pod has been running, 0 if it has not begun. The times of the API are whole seconds, which is
// too coarse for short pods: within what they allow, when the pod was seen to begin and to end counts.
func (p *Pod) Duration(now time.Time) time.Duration {
	switch {
	case p.Started.IsZero():
		return 0
	case p.Finished.IsZero():
		return max(0, now.Sub(p.Started))
	}
	d := p.Finished.Sub(p.Started)
	if !p.began.IsZero() && !p.ended.IsZero() {
		d = min(max(p.ended.Sub(p.began), d-time.Second), d+time.Second)
	}
	return max(0, d)
}

// Pods returns all pods that were seen, in the order in which they were.
func (m *Model) Pods() []*Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]*Pod, len(m.order))
	for i, uid := range m.order {
		all[i] = m.pods[uid]
	}
	return all
}

// Job returns the Job as it was last seen, nil if it was not.
func (m *Model) Job() *batchv1.Job {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.job
}

// Images returns the transfers that are under way.
func (m *Model) Images() []Transfer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.images)
}

// Waiting returns the images that containers wait for.
func (m *Model) Waiting() []string {
	var names []string
	for _, p := range m.Pods() {
		if p.Image != "" && !p.State.over() && !slices.Contains(names, p.Image) {
			names = append(names, p.Image)
		}
	}
	return names
}

// PodOf returns what a pod is doing.
func PodOf(p *corev1.Pod) Pod {
	out := Pod{Name: p.Name, UID: p.UID, State: Pending, Created: p.CreationTimestamp.Time, Index: indexOf(p), Started: started(p),
		Deleted: p.DeletionTimestamp != nil}
	statuses := slices.Collect(podspec.Statuses(p))
	for _, s := range statuses {
		out.Restarts += s.RestartCount
		if t := s.State.Terminated; t != nil && t.FinishedAt.After(out.Finished) {
			out.Finished = t.FinishedAt.Time
		}
	}
	switch p.Status.Phase {
	case corev1.PodSucceeded:
		out.State = Succeeded
		return out
	case corev1.PodFailed:
		out.State = Failed
		out.Reason, out.Message = p.Status.Reason, p.Status.Message
		if c := FailedContainer(p); c != nil {
			code := c.State.Terminated.ExitCode
			out.ExitCode = &code
			out.Reason = cmp.Or(out.Reason, c.State.Terminated.Reason)
			out.Message = cmp.Or(out.Message, c.State.Terminated.Message)
		}
		return out
	}
	out.Finished = time.Time{}
	for _, s := range statuses {
		w := s.State.Waiting
		if w == nil || w.Reason == "PodInitializing" {
			continue
		}
		if w.Reason != "ContainerCreating" || s.ImageID == "" {
			out.Image = imageOf(p, s.Name)
		}
		if w.Reason != "ContainerCreating" {
			out.Reason, out.Message = w.Reason, w.Message
		}
		break
	}
	switch {
	case p.DeletionTimestamp != nil:
		out.State = Stopping
	case p.Status.Phase == corev1.PodRunning:
		out.State = Running
	case p.Spec.NodeName != "" && len(statuses) > 0:
		out.State = Starting
	default:
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				out.Reason, out.Message = c.Reason, c.Message
			}
		}
	}
	return out
}

// started returns when the first container of a pod was started; zero if none was. Of restarts the API knows the last alone: after more,
// and where it does not say, the pod counts from when the machine had it.
func started(p *corev1.Pod) (first time.Time) {
	accepted := p.Status.StartTime != nil && p.Status.Phase != corev1.PodPending
	for s := range podspec.Statuses(p) {
		if s.RestartCount > 1 && accepted {
			return p.Status.StartTime.Time
		}
		for _, state := range []corev1.ContainerState{s.LastTerminationState, s.State} {
			var at time.Time
			switch {
			case state.Running != nil:
				at = state.Running.StartedAt.Time
			case state.Terminated != nil:
				at = state.Terminated.StartedAt.Time
				if at.Unix() == 0 { // it could not be started (StartError)
					at = state.Terminated.FinishedAt.Time
				}
			}
			if !at.IsZero() && (first.IsZero() || at.Before(first)) {
				first = at
			}
		}
	}
	if first.IsZero() && accepted {
		return p.Status.StartTime.Time
	}
	return first
}

// FailedContainer returns the container that made a pod fail: of those that ended with another exit code than 0, the
// one that did so first, and a sidecar only if there is no other. It returns nil if no container failed.
func FailedContainer(p *corev1.Pod) *corev1.ContainerStatus {
	sidecars := map[string]bool{}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		sidecars[c.Name] = podspec.IsSidecar(c)
	}
	var first *corev1.ContainerStatus
	for c := range podspec.Statuses(p) {
		switch t := c.State.Terminated; {
		case t == nil || !podspec.HasFailed(&p.Spec, c.Name, t):
		case first == nil, sidecars[first.Name] && !sidecars[c.Name],
			sidecars[first.Name] == sidecars[c.Name] && t.FinishedAt.Before(&first.State.Terminated.FinishedAt):
			first = c
		}
	}
	return first
}

func indexOf(p *corev1.Pod) *int {
	if n, err := strconv.Atoi(p.Annotations[batchv1.JobCompletionIndexAnnotation]); err == nil {
		return &n
	}
	return nil
}

func imageOf(p *corev1.Pod, container string) string {
	for c := range podspec.Workload(&p.Spec) {
		if c.Name == container {
			return c.Image
		}
	}
	return ""
}

// Transfer is an image that is being pulled or imported.
type Transfer struct {
	Name string
	// State is pulling, importing, unpacking, done or failed.
	State string
	// Bytes of Total have come; Total is 0 if it is not known.
	Bytes, Total int64
	Layers       int
	TotalLayers  int

	said time.Time // when it was last in an event
}

func (t Transfer) event(now time.Time) Event {
	return Event{
		Time: now, Type: "image", Name: t.Name, State: t.State,
		Bytes: t.Bytes, TotalBytes: t.Total, Layers: t.Layers, TotalLayers: t.TotalLayers,
	}
}

// amount says how far the transfer is: "12.3 of 40.1 MB, 2 of 5 layers".
func (t Transfer) amount() string {
	out := ""
	switch {
	case t.Total > 0:
		out = fmt.Sprintf("%.1f of %.1f MB", float64(t.Bytes)/1e6, float64(t.Total)/1e6)
	case t.Bytes > 0:
		out = fmt.Sprintf("%.1f MB", float64(t.Bytes)/1e6)
	}
	if t.TotalLayers > 0 {
		if out != "" {
			out += ", "
		}
		out += fmt.Sprintf("%d of %d layers", t.Layers, t.TotalLayers)
	}
	return out
}

// imageEvery is how often an image that is on its way is in an event.
const imageEvery = 2 * time.Second

// SetImages takes in the transfers that are under way now, and returns what is new: which have begun or ended, and from
// time to time how far they are.
func (m *Model) SetImages(now time.Time, transfers []Transfer) []Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	var events []Event
	for i, t := range transfers {
		before := slices.IndexFunc(m.images, func(b Transfer) bool { return b.Name == t.Name })
		if before >= 0 {
			transfers[i].said = m.images[before].said
			if m.images[before].State == t.State && now.Sub(m.images[before].said) < imageEvery {
				continue
			}
		}
		transfers[i].said = now
		events = append(events, t.event(now))
	}
	m.images = transfers
	return events
}
