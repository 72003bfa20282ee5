package pod

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/allotment"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime"
)

// Result is what Apply did.
type Result struct {
	Changed bool // the status has changed and has to be stored
	Events  []Event
}

// folder folds observations into the status of one pod.
type folder struct {
	pod     *corev1.Pod
	issued  *Issued
	now     time.Time
	changed bool
	events  []Event
}

// Apply brings the status of a pod up to date in place: it folds in the observations and whatever follows from the time
// alone (back-offs, deadline, deletion). It is to be called once the pod is bound to the node (whoever binds it sets
// spec.nodeName, status.hostIP and its PodScheduled condition), when there are observations, when the pod is being deleted,
// and at the time that Next asked for. Observations of other pods, of older attempts, and those that were folded in before
// change nothing.
//
// Failed launches are recorded in issued, for the back-off.
func Apply(pod *corev1.Pod, issued *Issued, observations []duty.Observation, now time.Time) Result {
	f := &folder{pod: pod, issued: issued, now: now}
	if !podspec.Bound(pod) {
		f.endUnbound()
		return Result{f.changed, f.events}
	}
	if !podspec.Ended(pod) {
		f.begin()
		f.admit()
	}
	for _, o := range observations {
		if o.UID == pod.UID {
			o.Message, o.Status.StartError = conditions.Brief(o.Message), conditions.Brief(o.Status.StartError)
			f.fold(o)
		}
	}
	if !podspec.Ended(pod) {
		f.takeHeld()
		f.signal()
		f.derive()
	}
	if !podspec.Ended(pod) {
		f.beginPause()
	}
	if allotment.IsResized(pod) {
		f.finishResize()
	}
	return Result{f.changed, f.events}
}

// endUnbound fails a pod that is deleted before it was bound to the node.
func (f *folder) endUnbound() {
	if f.pod.DeletionTimestamp != nil && !podspec.Ended(f.pod) {
		f.pod.Status.Phase = corev1.PodFailed
		f.changed = true
	}
}

// begin sets the first status of a pod that has just been bound.
func (f *folder) begin() {
	if begun(f.pod) {
		return
	}
	s := &f.pod.Status
	f.changed = true
	if s.StartTime == nil {
		start := seconds(f.now)
		s.StartTime = &start
	}
	f.condition(corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse})
	reason := firstReason(f.pod)
	s.InitContainerStatuses = newStatuses(f.pod.Spec.InitContainers, s.InitContainerStatuses, reason)
	s.ContainerStatuses = newStatuses(f.pod.Spec.Containers, s.ContainerStatuses, reason)
	if whole := f.pod.Spec.Resources; whole != nil {
		s.Resources, s.AllocatedResources = whole.DeepCopy(), whole.Requests.DeepCopy()
	}
	// A kubelet orders these by name, and the others as the spec does.
	slices.SortFunc(s.ContainerStatuses,
		func(a, b corev1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) })
}

// firstReason returns why a container waits that has never been started.
func firstReason(pod *corev1.Pod) string {
	if len(pod.Spec.InitContainers) > 0 {
		return reasonPodInitializing
	}
	return reasonCreating
}

// begun reports whether the pod has a status that was set after it was bound.
func begun(pod *corev1.Pod) bool {
	s := &pod.Status
	return s.StartTime != nil && len(s.ContainerStatuses) == len(pod.Spec.Containers) &&
		len(s.InitContainerStatuses) == len(pod.Spec.InitContainers)
}

func newStatuses(specs []corev1.Container, old []corev1.ContainerStatus, reason string) []corev1.ContainerStatus {
	if len(specs) == 0 {
		return nil
	}
	statuses := make([]corev1.ContainerStatus, len(specs))
	for i := range specs {
		if s := statusOf(old, specs[i].Name, i); s != nil {
			statuses[i] = *s
			continue
		}
		statuses[i] = corev1.ContainerStatus{
			Name:    specs[i].Name,
			Image:   specs[i].Image,
			State:   corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
			Started: new(bool),
			// From now on they say what the node has admitted.
			Resources:          specs[i].Resources.DeepCopy(),
			AllocatedResources: specs[i].Resources.Requests.DeepCopy(),
		}
	}
	return statuses
}

// fold folds in one observation: what is about the pod at any time, then what matters as long as it has not ended, and then
// what is about one of its containers.
func (f *folder) fold(o duty.Observation) {
	switch o.What {
	case duty.TornDown:
		if podspec.Ended(f.pod) {
			f.sandbox(false)
		}
		return
	case duty.FilesDropped:
		f.issued.DropFiles()
		return
	case duty.Stuck, duty.Doubted:
		f.warnOnce(o)
		return
	}
	if podspec.Ended(f.pod) {
		if o.What == duty.Evicted {
			f.dropFiles(o.Message)
		}
		return
	}
	switch o.What {
	case duty.Evicted:
		f.evict(o.Message)
	case duty.Preempted:
		f.preempt()
	case duty.HostStops:
		f.hostStops(o.Took)
	case duty.HostStays:
		f.hostStays()
	case duty.Rejected:
		f.reject(o)
	case duty.SetUp:
		f.setUp(o)
	case duty.SandboxLost:
		f.sandboxLost()
	case duty.Resized:
		f.resized(o)
	case duty.Paused, duty.Continued:
		f.paused(o)
	case duty.SignalSent:
		f.signalSent(o)
	default:
		f.foldContainer(o)
	}
}

// foldContainer folds in an observation of an attempt that can have been asked for.
func (f *folder) foldContainer(o duty.Observation) {
	c := find(f.pod, o.Container)
	if c.spec == nil || !f.mayBe(c, o.Attempt) {
		return
	}
	switch o.What {
	case duty.Pulling, duty.Pulled:
		f.pull(c, o)
	case duty.Started:
		f.started(c, o)
	case duty.Exited:
		f.exited(c, o)
	case duty.SetUpFailed, duty.StartFailed:
		f.startFailed(c, o)
	case duty.Checked:
		f.checked(c, o)
	case duty.Dropped:
		f.dropped(o)
	case duty.Held:
		f.issued.of(o.Container).held = &o
	case duty.Lost:
		f.lost(c, o)
	}
}

// mayBe reports whether, judging by the status, an attempt can have been asked for.
func (f *folder) mayBe(c container, attempt int) bool {
	if attempt < c.next() {
		return true
	}
	end := c.ended()
	return attempt == c.next() && !c.running() && (end == nil || restarts(f.pod, c, end))
}

// sandboxLost folds in that the pod has to be set up anew, which a pod that ends does not need.
func (f *folder) sandboxLost() {
	if _, stopping := stopping(f.pod, f.now); stopping && !resumes(f.pod) {
		return
	}
	if next := phase(f.pod, false); next == corev1.PodSucceeded || next == corev1.PodFailed {
		return
	}
	f.condition(corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse})
	f.normal(container{}, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
}

func (f *folder) setUp(o duty.Observation) {
	f.sandbox(true)
	s := &f.pod.Status
	if len(o.IPs) == 0 || s.PodIP == o.IPs[0] && len(s.PodIPs) == len(o.IPs) {
		return
	}
	s.PodIP, s.PodIPs = o.IPs[0], nil
	for _, ip := range o.IPs {
		s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: ip})
	}
	f.changed = true
}

func (f *folder) started(c container, o duty.Observation) {
	if started, _ := c.knows(o.Attempt); started {
		return
	}
	f.run(c, o)
	if !c.init {
		f.issued.started(c.spec.Name)
	}
	f.normal(c, "Started", "Container started")
}

// run records the start of an attempt.
func (f *folder) run(c container, o duty.Observation) {
	f.sandbox(true)
	f.issued.startedWhilePaused()
	c.keepLast()
	c.begin(f.pod, o)
	if r := f.issued.look().resize; r != nil {
		r.partly, r.entirely = false, false // it may have been started with other resources
	}
	c.status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: seconds(o.Status.StartedAt)}}
	if !c.ephemeral {
		c.status.Started = new(bool)
		*c.status.Started = startsAtOnce(c.spec)
		c.status.Ready = (!c.init || c.sidecar()) && *c.status.Started && c.spec.ReadinessProbe == nil
	}
	f.changed = true
	f.normal(c, "Created", "Container created")
}

// begin resets the status to that of a new attempt.
func (c container) begin(pod *corev1.Pod, o duty.Observation) {
	s := c.status
	s.RestartCount = int32(o.Attempt)
	s.ContainerID = "containerd://" + runtime.ContainerID(string(pod.UID), c.spec.Name, o.Attempt)
	switch {
	case o.Image.Name != "":
		s.Image, s.ImageID = o.Image.Name, o.Image.ID
	case o.Status.Image != "" && o.Status.Image != s.Image:
		s.Image, s.ImageID = o.Status.Image, ""
	}
	s.StopSignal = stopSignal(c.spec, o.Image)
	s.User = userStatus(o.Status.User)
	switch {
	case o.Resources != nil:
		s.Resources = o.Resources.DeepCopy()
	case s.Resources == nil:
		s.Resources = c.spec.Resources.DeepCopy()
	}
	if s.AllocatedResources == nil {
		s.AllocatedResources = c.spec.Resources.Requests.DeepCopy()
	}
	if s.VolumeMounts == nil {
		s.VolumeMounts = mountStatuses(c.spec.VolumeMounts)
	}
}

// userStatus is ContainerStatus.User (KEP-3619).
func userStatus(u *runtime.User) *corev1.ContainerUser {
	if u == nil {
		return nil
	}
	linux := &corev1.LinuxContainerUser{UID: int64(u.UID), GID: int64(u.GID)}
	for _, gid := range u.Groups {
		linux.SupplementalGroups = append(linux.SupplementalGroups, int64(gid))
	}
	return &corev1.ContainerUser{Linux: linux}
}

func mountStatuses(mounts []corev1.VolumeMount) []corev1.VolumeMountStatus {
	var statuses []corev1.VolumeMountStatus
	for _, m := range mounts {
		s := corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			recursive := corev1.RecursiveReadOnlyDisabled
			if m.RecursiveReadOnly != nil && *m.RecursiveReadOnly != recursive {
				recursive = corev1.RecursiveReadOnlyEnabled
			}
			s.RecursiveReadOnly = &recursive
		}
		statuses = append(statuses, s)
	}
	return statuses
}

func (f *folder) exited(c container, o duty.Observation) {
	started, ended := c.knows(o.Attempt)
	if ended {
		return
	}
	s := o.Status
	if s.StartError != "" {
		if !started {
			f.run(c, o)
		}
		f.warning(c, "Failed", "Error: "+s.StartError)
		f.end(c, corev1.ContainerStateTerminated{
			ExitCode: exitStartError, Reason: reasonStartError, Message: s.StartError,
			// As clusters show it.
			StartedAt: metav1.Unix(0, 0), FinishedAt: seconds(s.FinishedAt),
		})
		return
	}
	again, waits := started && f.startsAgain(c), f.stopped(c)
	if !started {
		f.started(c, o)
	}
	end := corev1.ContainerStateTerminated{
		// A kubelet never sets the signal: an exit code of 128 and more says it.
		ExitCode: int32(s.ExitCode), Reason: reasonError, Message: s.Message,
		StartedAt: seconds(s.StartedAt), FinishedAt: seconds(s.FinishedAt),
	}
	switch {
	case s.OOMKilled:
		end.Reason = reasonOOMKilled
	case s.ExitCode == 0:
		end.Reason = reasonCompleted
	}
	f.end(c, end)
	switch {
	case waits:
		c.renew(reasonNodeShutdown)
	case again:
		c.renew(reasonCreating)
	}
}

// end records how the newest attempt ended.
func (f *folder) end(c container, end corev1.ContainerStateTerminated) {
	end.ContainerID = c.status.ContainerID
	end.Message = fit(end.Message, len(f.pod.Spec.InitContainers)+len(f.pod.Spec.Containers))
	c.status.State = corev1.ContainerState{Terminated: &end}
	if !c.ephemeral {
		c.status.Started = new(bool)
	}
	c.status.Ready = c.init && !c.sidecar() && end.ExitCode == 0
	if i := f.issued.find(c.spec.Name); i != nil {
		i.failed = 0
	}
	f.changed = true
}

func (f *folder) startFailed(c container, o duty.Observation) {
	if o.Attempt != c.next() || c.running() {
		return
	}
	f.issued.fail(c, o)
	if o.What == duty.StartFailed {
		f.changed = c.waiting(o.Reason, o.Message) || f.changed
		f.startFailedEvents(c, o)
		return
	}
	f.warnOnce(o)
}

// fail records that a launch has failed.
func (i *Issued) fail(c container, o duty.Observation) {
	e := i.of(c.spec.Name)
	if !o.At.After(e.failedAt) {
		return // it was folded in before, and the next launch may be under way
	}
	e.launched, e.held = 0, nil
	if e.image != c.spec.Image {
		e.image, e.failed = c.spec.Image, 0
	}
	e.failed++
	e.failedAt, e.failedOf = o.At, o.Volume
}

// derive brings everything up to date that follows from the containers' states and the time.
func (f *folder) derive() {
	pod := f.pod
	end, stopping := stopping(pod, f.now)
	if stopping {
		end = f.issued.bounded(end)
		f.issued.ending(end, f.now)
		f.goOn("PodEnds")
	}
	next := phase(pod, stopping)
	switch {
	case stopping && resumes(pod) && !pastDeadline(pod, f.now) && quiet(pod, f.issued):
		next = f.await()
	case stopping && quiet(pod, f.issued):
		expired := pod.DeletionTimestamp == nil && pastDeadline(pod, f.now)
		if !isRejected(pod) {
			f.settle()
		}
		next = phase(pod, true)
		if makesWay(pod) || isRejected(pod) {
			expired, next = false, corev1.PodFailed
		}
		if expired {
			next = corev1.PodFailed
			pod.Status.Reason, pod.Status.Message = reasonDeadlineExceeded, messageDeadlineExceeded
			f.normal(container{}, reasonDeadlineExceeded, messageDeadlineExceeded)
		}
	case stopping:
		if !f.now.Before(end.begin) {
			f.killing()
		}
		if resumes(pod) { // what has not begun yet will do so
			next = resumed(pod)
		}
		if next == corev1.PodSucceeded || next == corev1.PodFailed {
			next = lingering(pod)
		}
	default:
		if f.restartAll() {
			if next != corev1.PodRunning {
				next = pod.Status.Phase
			}
			break
		}
		next = resumed(pod) // the containers that were reset have not ended any more
		last, ok := winding(pod)
		if !ok {
			f.replacing()
			f.holdRestarts()
			f.holdPulls()
			break
		}
		f.issued.ending(f.issued.bounded(last), f.now)
		if quiet(pod, f.issued) {
			f.settle()
			break
		}
		f.killing()
		next = lingering(pod)
	}
	if next == "" {
		next = corev1.PodPending
	}
	if pod.Status.Phase != next {
		pod.Status.Phase = next
		f.changed = true
	}
	if podspec.Ended(pod) && MayBePaused(pod) { // a process that is frozen may be killed
		f.goOn("PodEnds")
	}
	if pod.Status.ObservedGeneration != pod.Generation {
		pod.Status.ObservedGeneration = pod.Generation
		f.changed = true
	}
	f.conditions()
}
