package history

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	wire "github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime"
)

// Each end of a container counts once, however often it is reported and in whatever order.
func TestFoldCountsEachEndOnce(t *testing.T) {
	end := func(container string, attempt, code int, oom bool) duty.Observation {
		return duty.Observation{What: duty.Exited, Container: container, Attempt: attempt, Status: runtime.Status{
			ExitCode: code, OOMKilled: oom, Used: runtime.Used{CPU: 1500 * time.Millisecond, PeakMemory: int64(100 * (attempt + 1))},
		}}
	}
	p := &Pod{}
	first := end("main", 0, 137, true)
	if !p.Fold([]duty.Observation{{What: duty.Started, Container: "main"}, first, first}) {
		t.Error("no end was taken in")
	}
	if p.Fold([]duty.Observation{first}) {
		t.Error("an end that is known was taken in again")
	}
	if !p.Fold([]duty.Observation{end("main", 1, 0, false), end("side", 0, 1, false)}) {
		t.Error("no further end was taken in")
	}
	p.Fold([]duty.Observation{first, {What: duty.Lost, Container: "side", Attempt: 1}})
	main, side := p.Containers[0], p.Containers[1]
	if main.CPUSeconds != 3 || main.PeakMemory != 200 || main.Restarts != 1 || main.ExitCode != 0 || main.Reason != "" {
		t.Errorf("main is %+v", main)
	}
	if side.CPUSeconds != 1.5 || side.Restarts != 1 || side.Reason != "ContainerStatusUnknown" || side.ExitCode != 137 {
		t.Errorf("side is %+v", side)
	}
	if p.OOMPeaks["main"] != 100 || len(p.OOMPeaks) != 1 {
		t.Errorf("peaks %v", p.OOMPeaks)
	}
}

// The exit code of a pod is that of the container that has failed last, and not of one that was only added to look into it.
func TestExitCodeOfAPod(t *testing.T) {
	containers := []wire.Container{{Name: "a", ExitCode: 3, Reason: "Error"}, {Name: "b"}, {Name: "debug", ExitCode: 9, Reason: "Error"}}
	obj := &corev1.Pod{}
	obj.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
	for phase, want := range map[corev1.PodPhase]int{corev1.PodFailed: 3, corev1.PodSucceeded: 0, corev1.PodRunning: -1} {
		obj.Status.Phase = phase
		end := (&Pod{Containers: containers}).End(obj, time.Now())
		got := -1
		if end.ExitCode != nil {
			got = *end.ExitCode
		}
		if got != want {
			t.Errorf("%s: exit code %d, want %d", phase, got, want)
		}
	}
}

// With restartPolicy OnFailure a pod is stopped in an attempt of which nothing is known yet: the one before that has failed.
func TestExitCodeOfAPodThatWasStopped(t *testing.T) {
	at := metav1.NewTime(time.Unix(1000, 0))
	failed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", Message: "no table", FinishedAt: at}}
	stopped := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143, Reason: "Error", FinishedAt: at}}
	always := corev1.ContainerRestartPolicyAlways
	for name, c := range map[string]struct {
		status corev1.PodStatus
		want   int // -1: none
	}{
		"it had failed before": {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "a", State: stopped, LastTerminationState: failed}}}, 3},
		"it waited":            {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "a", LastTerminationState: failed}}}, 3},
		"it waited, settled":   {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "a", State: failed, RestartCount: 1}}}, 3},
		"its first attempt":    {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "a", State: stopped}}}, -1},
		"a sidecar had failed": {corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: "side", LastTerminationState: failed}}}, -1},
	} {
		obj := &corev1.Pod{Status: c.status}
		obj.DeletionTimestamp, obj.Status.Phase = &at, corev1.PodFailed
		obj.Spec.InitContainers = []corev1.Container{{Name: "side", RestartPolicy: &always}}
		obj.Spec.Containers = []corev1.Container{{Name: "a"}}
		end := (&Pod{Containers: []wire.Container{{Name: "a", ExitCode: 143, Reason: "Error"}}}).End(obj, at.Time)
		if got := ptr.Deref(end.ExitCode, -1); end.Result != wire.PodStopped || got != c.want || (end.Message == "no table") != (c.want == 3) {
			t.Errorf("%s: %+v with exit code %d", name, end, got)
		}
	}
}

// The time in which a pod or a Job was paused is known apart, whether it ends in the pause or after it.
func TestWhatWasPaused(t *testing.T) {
	start := metav1.NewTime(time.Unix(1000, 0))
	at := func(seconds int) metav1.Time { return metav1.NewTime(start.Add(time.Duration(seconds) * time.Second)) }
	obj := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded, StartTime: &start}}
	obj.Annotations = map[string]string{core.PausedForAnnotation: "10s"}
	if end := (&Pod{}).End(obj, at(90).Time); end.PausedSeconds != 10 || end.Ran() != 80*time.Second {
		t.Errorf("%+v ran for %s", end, end.Ran())
	}
	obj.Status.Conditions = []corev1.PodCondition{{Type: core.PodPaused, Status: corev1.ConditionTrue, LastTransitionTime: at(60)}}
	end := (&Pod{}).End(obj, at(90).Time)
	if end.PausedSeconds != 40 {
		t.Errorf("%+v", end)
	}
	a := &Account{}
	if a.Asks(obj, &end); a.Job.PodSeconds != 50 {
		t.Errorf("its pods ran for %v s", a.Job.PodSeconds)
	}

	j := &batchv1.Job{Status: batchv1.JobStatus{StartTime: &start}}
	j.Annotations = map[string]string{batch.PausedForAnnotation: "10s"}
	j.Status.Conditions = []batchv1.JobCondition{{Type: batch.JobPaused, Status: corev1.ConditionTrue, LastTransitionTime: at(60)}}
	a.Describe(j, "", "", at(90).Time)
	if got := a.Close(nil, nil, at(90).Time); got.PausedSeconds != 40 {
		t.Errorf("deleted while it was paused: %+v", got)
	}
	if got := a.Close(j, &batchv1.JobStatus{StartTime: &start}, at(90).Time); got.PausedSeconds != 10 {
		t.Errorf("ended, with the end of its pause counted: %+v", got)
	}
}

// A Job that grew after it ran out of memory has asked for the most that a pod did, and its init containers ran before the others.
func TestWhatAJobAskedFor(t *testing.T) {
	start := metav1.NewTime(time.Unix(1000, 0))
	ends := func(memory string, peaks map[string]int64) (*corev1.Pod, wire.Pod) {
		list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse(memory)}
		obj := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded, StartTime: &start}}
		obj.Spec.InitContainers = []corev1.Container{
			{Name: "init"}, {Name: "sidecar", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
		}
		obj.Spec.Containers = []corev1.Container{
			{Name: "main", Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}, {Name: "other"},
		}
		p := &Pod{}
		for name, peak := range peaks {
			p.Containers = append(p.Containers, wire.Container{Name: name, Use: wire.Use{PeakMemory: peak}})
		}
		return obj, p.End(obj, start.Add(90*time.Second))
	}
	a := &Account{}
	for _, run := range []struct {
		memory string
		peaks  map[string]int64
	}{
		{"1Gi", map[string]int64{"init": 50, "main": 10, "other": 5, "sidecar": 5}},
		{"2Gi", map[string]int64{"init": 10, "main": 40, "other": 15, "sidecar": 5}},
	} {
		obj, end := ends(run.memory, run.peaks)
		a.Asks(obj, &end)
		a.Add(end)
	}
	j := a.Close(nil, nil, start.Time)
	want := wire.Resources{CPURequest: .5, CPULimit: .5, MemoryRequest: 2 << 30, MemoryLimit: 2 << 30}
	if j.Asked != want || j.PodMemory != 60 || j.PeakMemory != 50 || j.PodSeconds != 180 {
		t.Errorf("%+v", j)
	}
	for _, c := range j.Pods[1].Containers {
		if is := c.Asked == want; is != (c.Name == "main") {
			t.Errorf("%+v", c)
		}
	}
}

// The termination messages of a Job are kept up to a bound, and it is known of how many pods they are not.
func TestMessagesAreKeptUpToABound(t *testing.T) {
	obj := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}
	message := strings.Repeat("x", 4096)
	obj.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message}},
	}}
	a := &Account{}
	kept := 0
	take := func(pods []wire.Pod) {
		for _, p := range pods {
			if p.Message == message {
				kept++
			} else if p.Message != "" {
				t.Errorf("a part of one: %q", p.Message)
			}
		}
	}
	for range 300 {
		if part := a.Add((&Pod{}).End(obj, time.Now())); part != nil {
			take(part.Pods)
		}
	}
	take(a.Job.Pods)
	if kept != maxMessages/len(message) || a.Job.MessagesLeftOut != 300-kept {
		t.Errorf("%d are kept, %d are not", kept, a.Job.MessagesLeftOut)
	}
	if got := boundedValues([]batch.IndexValue{{Name: "a", Value: message}}); got != nil {
		t.Errorf("a long value is kept: %d", len(got))
	}
}
