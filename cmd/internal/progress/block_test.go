package progress

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func ago(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-d)} }

// indexed is a Job of so many indexes.
func indexed(n int32) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "ns"},
		Spec:       batchv1.JobSpec{Completions: &n, CompletionMode: ptr.To(batchv1.IndexedCompletion)},
		Status:     batchv1.JobStatus{StartTime: ago(12 * time.Second)},
	}
}

func podAt(name string, index string, phase corev1.PodPhase) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	if index != "" {
		p.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: index}
	}
	p.Status.Phase, p.Status.StartTime = phase, ago(3*time.Second)
	return p
}

// A server may call a Job, a pod or an image what it likes.
func TestBlockOfHostileNames(t *testing.T) {
	const odd = "x\x1b]0;title\a\x1b[2J\u202e"
	j := indexed(1)
	j.Name = odd
	var m Model
	m.SetJob(j, now)
	m.SetPod(podAt(odd, "0", corev1.PodRunning), now)
	m.SetImages(now, []Transfer{{Name: odd, State: "pulling"}})
	got := strings.Join(block(&m, now, []string{odd}, style{width: 70, height: 24}), "\n")
	if strings.Contains(got, "\x1b]") || strings.Contains(got, "\x1b[2J") || strings.Contains(got, "\u202e") || !strings.Contains(got, "job x ") {
		t.Errorf("%q", got)
	}
}

func TestBlock(t *testing.T) {
	j := indexed(10)
	j.Status.Succeeded, j.Status.Active, j.Status.Failed, j.Status.Ready = 4, 2, 1, ptr.To[int32](1)
	j.Status.CompletedIndexes, j.Status.FailedIndexes = "0,2-4", ptr.To("9")
	waiting := podAt("x-6-c", "6", corev1.PodPending)
	waiting.Spec.Containers = []corev1.Container{{Name: "c", Image: "big:1"}}
	waiting.Spec.NodeName = "here"
	waiting.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no\nsuch \x1b[2J tag"},
	}}}
	var m Model
	m.SetJob(j, now)
	m.SetPod(podAt("x-5-b", "5", corev1.PodRunning), now)
	m.SetPod(waiting, now)
	m.SetPod(podAt("x-0-a", "0", corev1.PodSucceeded), now)
	m.SetImages(now, []Transfer{{Name: "big:1", State: "pulling", Bytes: 1e6, Total: 2e6, Layers: 1, TotalLayers: 3}})
	if got := m.Waiting(); len(got) != 1 || got[0] != "big:1" {
		t.Errorf("waits for %q", got)
	}
	got := strings.Join(block(&m, now, []string{"a line"}, style{width: 70, height: 24}), "\n")
	want := `job x  running  12s  4 of 10 succeeded, 2 active, 1 failed
  ████████████████▒▒▒▒▒▒▒▒░░░░░░░░░░░░░░░░ 40%
  ■·■■■▣□··✘
  pulling big:1  1.0 of 2.0 MB, 1 of 3 layers
  x-6-c  starting  ErrImagePull: no such  tag
  x-5-b  running  3s
  | a line`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A block fits into the terminal, however small that is and however much there is to show.
func TestBlockFits(t *testing.T) {
	for _, n := range []int32{0, 1, 7, 1000, 100000} {
		j := indexed(n)
		j.Status.CompletedIndexes = "0,3-5,50-99999"
		var m Model
		m.SetJob(j, now)
		for i := range 50 {
			m.SetPod(podAt(strings.Repeat("long-", i)+"x", "1", corev1.PodRunning), now)
		}
		for _, width := range []int{1, 3, 10, 40, 200} {
			for _, height := range []int{1, 2, 5, 50} {
				lines := block(&m, now, nil, style{width: width, height: height, color: true})
				if len(lines) > max(1, height-1) {
					t.Errorf("%d indexes in %dx%d: %d lines", n, width, height, len(lines))
				}
				for _, l := range lines {
					if got := ansi.StringWidth(l); got > max(1, width-1) {
						t.Errorf("%d indexes in %dx%d: a line of %d: %q", n, width, height, got, l)
					}
				}
			}
		}
	}
}

func TestEventsOfAPod(t *testing.T) {
	var m Model
	p := podAt("x", "3", corev1.PodPending)
	states := func(p *corev1.Pod) (out []string) {
		for _, e := range m.SetPod(p, now) {
			out = append(out, Sentence(e))
		}
		return out
	}
	one := func(got []string, want string) {
		t.Helper()
		if want == "" && len(got) == 0 || len(got) == 1 && got[0] == want {
			return
		}
		t.Errorf("got %q, want %q", got, want)
	}
	one(states(p), "pod x (index 3): pending")
	one(states(p), "")
	p = p.DeepCopy()
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no room"}}
	one(states(p), "pod x (index 3): pending: Unschedulable: no room")
	p = podAt("x", "3", corev1.PodRunning)
	one(states(p), "pod x (index 3): running")
	p = podAt("x", "3", corev1.PodFailed)
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled", FinishedAt: metav1.NewTime(now)},
	}}}
	one(states(p), "pod x (index 3): failed with exit code 137 after 3s: OOMKilled")
	if e := m.DeletePod(p, now); len(e) > 0 {
		t.Errorf("its deletion: %+v", e)
	}
	gone := podAt("y", "", corev1.PodRunning)
	m.SetPod(gone, now)
	if e := m.DeletePod(gone, now); len(e) != 1 || Sentence(e[0]) != "pod y: gone after 3s" {
		t.Errorf("its deletion: %+v", e)
	}
}

// TestDurationOfAPod: the API has whole seconds, and what was seen of a pod is more exact, within what they allow.
func TestDurationOfAPod(t *testing.T) {
	const ms = time.Millisecond
	for rule, c := range map[string]struct {
		began, ended time.Duration // when it was seen, after its start as the API has it
		finish       int           // seconds after it, as the API has it
		want         time.Duration
	}{
		"a short one":                       {100 * ms, 350 * ms, 0, 250 * ms},
		"over a full second":                {900 * ms, 1150 * ms, 1, 250 * ms},
		"one that was joined late":          {30 * time.Second, 60 * time.Second, 60, 60 * time.Second},
		"its end was seen late":             {100 * ms, 9 * time.Second, 2, 3 * time.Second},
		"the clock of the server is behind": {-time.Hour, time.Second - time.Hour, 7, 7 * time.Second},
	} {
		var m Model
		p := podAt("x", "3", corev1.PodRunning)
		start := now
		p.Status.StartTime = &metav1.Time{Time: start}
		m.SetPod(p, start.Add(c.began))
		p = p.DeepCopy()
		p.Status.Phase = corev1.PodSucceeded
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(start.Add(time.Duration(c.finish) * time.Second))},
		}}}
		m.SetPod(p, start.Add(c.ended))
		if got := m.Pods()[0].Duration(start.Add(time.Hour)); got != c.want {
			t.Errorf("%s: %v, want %v", rule, got, c.want)
		}
	}
}

// TestTheWaitForTheImageIsNoTimeOfThePod: what is said to have taken long is what did.
func TestTheWaitForTheImageIsNoTimeOfThePod(t *testing.T) {
	at := func(seconds int) metav1.Time { return metav1.NewTime(now.Add(time.Duration(seconds) * time.Second)) }
	ran := func(from, to int) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: at(from), FinishedAt: at(to)}}
	}
	for name, c := range map[string]struct {
		status corev1.ContainerStatus
		seen   []corev1.ContainerStatus // before
		want   string
	}{
		"an image came first": {
			status: corev1.ContainerStatus{State: ran(650, 671)}, want: "succeeded after 21s",
		},
		"an image was there": {status: corev1.ContainerStatus{State: ran(1, 671)}, want: "succeeded after 11m10s"},
		"it could not be started": { // as clusters show it
			status: corev1.ContainerStatus{State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{StartedAt: metav1.Unix(0, 0), FinishedAt: at(671)},
			}}, want: "succeeded",
		},
		"it was restarted": {
			status: corev1.ContainerStatus{State: ran(660, 671), LastTerminationState: ran(650, 655), RestartCount: 1}, want: "succeeded after 21s",
		},
		"its first start was seen": {
			status: corev1.ContainerStatus{State: ran(660, 671), LastTerminationState: ran(655, 658), RestartCount: 2},
			seen:   []corev1.ContainerStatus{{State: ran(640, 641)}}, want: "succeeded after 31s",
		},
		"its first start is not known": {
			status: corev1.ContainerStatus{State: ran(660, 671), LastTerminationState: ran(655, 658), RestartCount: 2},
			want:   "succeeded after 11m11s",
		},
	} {
		var m Model
		p := podAt("x", "3", corev1.PodRunning)
		p.Status.StartTime = &metav1.Time{Time: now}
		for _, s := range c.seen {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{s}
			m.SetPod(p.DeepCopy(), at(645).Time)
		}
		p.Status.Phase, p.Status.ContainerStatuses = corev1.PodSucceeded, []corev1.ContainerStatus{c.status}
		if e := m.SetPod(p, at(900).Time); len(e) != 1 || Sentence(e[0]) != "pod x (index 3): "+c.want {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// TestEventsOfAJob: that pods come and go is said by their own events.
func TestEventsOfAJob(t *testing.T) {
	status := func(s batchv1.JobStatus) *batchv1.Job {
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: batchv1.JobSpec{Completions: ptr.To[int32](2)}, Status: s}
	}
	started := batchv1.JobStatus{StartTime: ago(time.Second), Active: 1}
	ready, next, failed := started, started, started
	ready.Ready = ptr.To[int32](1)
	next.Succeeded = 1
	failed.Failed = 1
	suspended := status(started)
	suspended.Spec.Suspend = ptr.To(true)
	for name, tc := range map[string]struct {
		jobs []*batchv1.Job
		want []string
	}{
		"a new one": {
			[]*batchv1.Job{status(batchv1.JobStatus{}), status(started), status(ready), status(next), status(ready)},
			[]string{
				"job x: created", "job x: running: 0 of 2 succeeded, 1 active", "job x: waiting: 1 of 2 succeeded, 1 active",
				"job x: running: 0 of 2 succeeded, 1 active",
			},
		},
		"pods come and go": {[]*batchv1.Job{status(ready), status(started), status(ready)}, []string{"job x: running: 0 of 2 succeeded, 1 active"}},
		"its pods fail": {
			[]*batchv1.Job{status(started), status(failed)},
			[]string{"job x: waiting: 0 of 2 succeeded, 1 active", "job x: waiting: 0 of 2 succeeded, 1 active, 1 failed"},
		},
		"it is resumed": {
			[]*batchv1.Job{suspended, status(started)},
			[]string{"job x: suspended: 0 of 2 succeeded, 1 active", "job x: waiting: 0 of 2 succeeded, 1 active"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var m Model
			var got []string
			for _, j := range tc.jobs {
				for _, e := range m.SetJob(j, now) {
					got = append(got, Sentence(e))
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestPrompt: whoever is asked sees all answers.
func TestPrompt(t *testing.T) {
	answers := []Answer{{"d", "detach, it keeps running"}, {"k", "kill it: delete the Job"}, {"c", "continue"}}
	for _, name := range []string{"x", "sweep", strings.Repeat("long", 15)} {
		for _, width := range []int{200, 120, 80, 60, 40, 30} {
			lines := prompt("Interrupted: what about job "+name+"?", answers, width)
			all := strings.Join(lines, "\n")
			for _, a := range answers {
				if want := "[" + a.Key + "] " + a.Text; !strings.Contains(all, want) {
					t.Errorf("%d columns: no %s in %q", width, want, lines)
				}
			}
			for _, l := range lines {
				if len(l) >= width && !strings.HasSuffix(l, "…") {
					t.Errorf("%d columns are too few for %q", width, l)
				}
			}
		}
	}
}
