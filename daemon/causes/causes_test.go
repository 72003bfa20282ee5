package causes

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/retry"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/runtime"
)

var now = time.Unix(1_700_000_000, 0)

func newJob(change func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "n", UID: "u"}}
	j.Spec.BackoffLimit = ptr.To[int32](6)
	change(j)
	return j
}

func ends(t batchv1.JobConditionType, reason string) []batchv1.JobCondition {
	return []batchv1.JobCondition{{Type: t, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(now)}}
}

// failedPod is a pod whose container has ended.
func failedPod(code int32, reason string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "j-x", Namespace: "n", UID: "p"}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
	}}}
	p.Status.Phase = corev1.PodFailed
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, FinishedAt: metav1.NewTime(now)},
	}}}
	return p
}

// TestHeadingOfSeveralCauses: who reads the first line alone learns of all of them.
func TestHeadingOfSeveralCauses(t *testing.T) {
	for want, briefs := range map[string][]string{
		"":                                 {"", ""},
		"no memory":                        {"", "no memory", "no memory"},
		"exit code 1; back-off of 10s":     {"exit code 1; back-off of 10s", "exit code 1"},
		"2 causes: exit code 1; no memory": {"exit code 1", "no memory"},
		"5 causes: a1; b2; c3; and 2 more": {"a1", "b2", "c3", "d4", "e5"},
	} {
		var causes []why.Cause
		for _, brief := range briefs {
			causes = append(causes, why.Cause{Causes: []why.Cause{{Brief: brief}}})
		}
		if got := heading(causes); got != want {
			t.Errorf("of %q it is %q, want %q", briefs, got, want)
		}
	}
}

// TestWhoseDeadlineItWas: a pod and its Job have one of the same name each.
func TestWhoseDeadlineItWas(t *testing.T) {
	p := failedPod(137, "Error")
	p.Status.Reason, p.Spec.ActiveDeadlineSeconds = "DeadlineExceeded", ptr.To[int64](5)
	j := newJob(func(j *batchv1.Job) {
		j.Status.Conditions = ends(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
	})
	if said := Job(World{Now: now, Source: why.FromRecords}, j, []*corev1.Pod{p}); said.Reason != "ran longer than the pod's activeDeadlineSeconds of 5s" {
		t.Errorf("of the pod: %q", said.Reason)
	}
	j.Status.Conditions = ends(batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded)
	j.Spec.ActiveDeadlineSeconds = ptr.To[int64](9)
	if said := Job(World{Now: now, Source: why.FromRecords}, j, nil); said.Reason != "ran longer than its activeDeadlineSeconds of 9s" {
		t.Errorf("of the Job: %q", said.Reason)
	}
}

// TestWhyAJobIsInItsState looks for the type, the words and the help of a cause, and for causes that must not be told.
func TestWhyAJobIsInItsState(t *testing.T) {
	failed := func(j *batchv1.Job) { j.Status.Conditions = ends(batchv1.JobFailed, "BackoffLimitExceeded") }
	growing := map[string]string{batch.OOMMemoryFactorAnnotation: "1.5", batch.OOMMemoryMaxAnnotation: "80Mi"}
	for name, tc := range map[string]struct {
		job    *batchv1.Job
		world  World
		pods   []*corev1.Pod
		state  string
		cause  string // its type
		words  string // in its message, or its help
		absent string // a type that is not told
	}{
		"it has failed": {newJob(failed), World{}, nil, "Failed", "BackoffLimitExceeded", "jobctl retry jobs/j -n n", "AttemptFailed"},
		"for want of memory": {
			newJob(failed), World{}, []*corev1.Pod{failedPod(137, "OOMKilled")}, "Failed", "BackoffLimitExceeded", "jobctl retry jobs/j -n n --memory 2x", "",
		},
		"the next pod has more memory": {
			newJob(func(j *batchv1.Job) { failed(j); j.Annotations = growing }), World{}, []*corev1.Pod{failedPod(137, "OOMKilled")},
			"Failed", "OOMKilled", "The next pod has 1.5 times as much, up to 80Mi", "",
		},
		"memory that cannot grow is said how to grow": {
			newJob(failed), World{}, []*corev1.Pod{failedPod(137, "OOMKilled")}, "Failed", "OOMKilled", batch.OOMMemoryFactorAnnotation, "",
		},
		"a signal by somebody else":   {newJob(failed), World{}, []*corev1.Pod{failedPod(137, "Error")}, "Failed", "ExitCode", "by somebody else", "OOMKilled"},
		"a command that is not there": {newJob(failed), World{}, []*corev1.Pod{failedPod(127, "Error")}, "Failed", "ExitCode", "did not find a command", ""},
		"it was retried": {
			newJob(func(j *batchv1.Job) {
				failed(j)
				if err := retry.Begin(j, retry.Request{}, "me", now); err != nil {
					t.Fatal(err)
				}
			}), World{}, []*corev1.Pod{failedPod(1, "Error")}, "Waiting", "AttemptFailed", "Attempt 1 failed (BackoffLimitExceeded)", "PodFailed",
		},
		"it is suspended": {
			newJob(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) }), World{}, nil, "Suspended", "Suspended",
			"jobctl resume jobs/j -n n", "BackOff",
		},
		"it waits for a back-off": {
			newJob(func(*batchv1.Job) {}), World{Standing: &job.Standing{Failures: 1, Failed: 1, Until: now.Add(time.Minute), Delay: time.Minute}}, nil,
			"Waiting", "BackOff", "failure 1 since the last success", "",
		},
		"the back-off is over": {
			newJob(func(*batchv1.Job) {}), World{
				Standing: &job.Standing{Failures: 1, Failed: 1, Until: now},
			}, nil, "Waiting", "FailuresLeft", "it survives 5 more", "BackOff",
		},
		"another manages it": {newJob(func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To("a.b/c") }), World{}, nil, "Waiting", "ManagedElsewhere", "a.b/c", ""},
		"it is deleted": {
			newJob(func(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{Time: now}; j.Finalizers = []string{"a/b"} }), World{}, nil,
			"Terminating", "Terminating", "a/b", "",
		},
		"it is removed later": {
			newJob(func(j *batchv1.Job) {
				j.Status.Conditions = ends(batchv1.JobComplete, "CompletionsReached")
				j.Spec.TTLSecondsAfterFinished = ptr.To[int32](60)
			}), World{}, nil, "Complete", "TTL", "ttlSecondsAfterFinished of 1m0s", "Retried",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.world.Now, tc.world.Source = now, why.FromRecords
			tc.world.Log = func(*corev1.Pod, string, bool) []string { return nil }
			said := Job(tc.world, tc.job, tc.pods)
			found, told := false, []string{}
			var look func([]why.Cause)
			look = func(all []why.Cause) {
				for _, c := range all {
					text := c.Message + "\n" + strings.Join(c.Help, "\n")
					told = append(told, c.Type+": "+text)
					found = found || c.Type == tc.cause && strings.Contains(text, tc.words)
					if c.Type == tc.absent {
						t.Errorf("it says %s: %s", c.Type, text)
					}
					look(c.Causes)
				}
			}
			look(said.Causes)
			if !found || said.State != tc.state {
				t.Errorf("%s, want %s with %s: %s; it says\n%s", said.State, tc.state, tc.cause, tc.words, strings.Join(told, "\n"))
			}
		})
	}
}

// Who reads only the first line learns that a Job runs elsewhere, and when nobody knows whether it still does.
func TestWhereAJobRuns(t *testing.T) {
	silent := batchv1.JobCondition{Type: clusters.Unreachable, Status: corev1.ConditionTrue, Message: "no answer"}
	for _, tc := range []struct {
		manager    string
		conditions []batchv1.JobCondition
		served     bool
		want       string
	}{
		{"", nil, true, "runs: "},
		{clusters.Manager("prod"), nil, true, "runs in the cluster prod: "},
		{clusters.Manager("prod"), nil, false, "runs in the cluster prod, by what was heard last: "},
		{clusters.Manager("prod"), []batchv1.JobCondition{silent}, true, "runs in the cluster prod, by what was heard last: "},
	} {
		j := newJob(func(j *batchv1.Job) {
			j.Status.Active, j.Status.Ready, j.Status.Conditions = 1, ptr.To[int32](1), tc.conditions
			if tc.manager != "" {
				j.Spec.ManagedBy = &tc.manager
			}
		})
		w := World{Now: now, Source: why.FromRecords, Forwarder: func(string) (bool, bool) { return tc.served, true }}
		if said := Job(w, j, nil); !strings.HasPrefix(said.Message, tc.want) {
			t.Errorf("%s: %q, want %q", tc.manager, said.Message, tc.want)
		}
	}
}

// TestWhatIsAdvisedToRetryWith: flags that most failures need, and for each cause those that it needs.
func TestWhatIsAdvisedToRetryWith(t *testing.T) {
	const backoff = "BackoffLimitExceeded"
	unlimited := failedPod(137, "OOMKilled")
	unlimited.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	initial := failedPod(137, "OOMKilled")
	initial.Spec.InitContainers = []corev1.Container{initial.Spec.Containers[0]}
	initial.Spec.InitContainers[0].Name = "i"
	initial.Status.InitContainerStatuses = initial.Status.ContainerStatuses
	initial.Status.InitContainerStatuses[0].Name, initial.Status.ContainerStatuses = "i", nil
	memory, plain := failedPod(137, "OOMKilled"), failedPod(1, "Error")
	late := failedPod(137, "Error")
	late.Status.Reason = "DeadlineExceeded"
	for name, tc := range map[string]struct {
		reason string
		pods   []*corev1.Pod
		retry  string   // what is advised for the Job, behind its name
		causes []string // what is advised for some failures
	}{
		"nothing helps":               {backoff, []*corev1.Pod{plain}, "", nil},
		"memory":                      {backoff, []*corev1.Pod{memory}, " --memory 2x", nil},
		"memory of an init container": {backoff, []*corev1.Pod{initial}, " --memory 2x -c i", nil},
		"memory without a limit":      {backoff, []*corev1.Pod{unlimited}, "", nil},
		"time":                        {"FailedIndexes", []*corev1.Pod{late}, " --pod-deadline 2x", nil},
		"time of the Job":             {"DeadlineExceeded", nil, " --deadline 2x", nil},
		"time of the Job, and memory": {"DeadlineExceeded", []*corev1.Pod{memory}, " --deadline 2x --memory 2x", nil},
		"each half of them":           {"FailedIndexes", []*corev1.Pod{late, memory}, " --memory 2x --pod-deadline 2x", nil},
		"most would only be repeated": {"FailedIndexes", []*corev1.Pod{plain, plain, memory}, "", []string{" --memory 2x"}},
		"a few of many": {
			"FailedIndexes", []*corev1.Pod{plain, plain, plain, memory, late}, "", []string{" --memory 2x", " --pod-deadline 2x"},
		},
		"one of many is something else": {"FailedIndexes", []*corev1.Pod{memory, memory, plain}, " --memory 2x", nil},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(func(j *batchv1.Job) {
				j.Status.Conditions = ends(batchv1.JobFailed, tc.reason)
				j.Spec.Template.Spec.ActiveDeadlineSeconds = ptr.To[int64](5)
			})
			said := Job(World{Now: now, Source: why.FromRecords, Log: func(*corev1.Pod, string, bool) []string { return nil }}, j, tc.pods)
			var first string
			var others []string
			for _, c := range said.Causes {
				for _, help := range c.Help {
					if flags, is := strings.CutPrefix(help, "jobctl retry jobs/j -n n"); is && c.Type == tc.reason {
						first = flags
					} else if is {
						others = append(others, flags)
					}
				}
			}
			slices.Sort(others)
			if first != tc.retry || !slices.Equal(others, tc.causes) {
				t.Errorf("%q and %q, want %q and %q", first, others, tc.retry, tc.causes)
			}
		})
	}
}

// TestWhyAnImageCannotBePulled: what is advised depends on whether it would help.
func TestWhyAnImageCannotBePulled(t *testing.T) {
	for name, tc := range map[string]struct {
		policy  corev1.PullPolicy
		message string
		words   string
		imports bool // advises to import it
	}{
		"not here": {corev1.PullIfNotPresent, "pull docker.io/library/b:1: no such host", "no such host", true},
		"not here, and Always": {
			corev1.PullAlways, "pull docker.io/library/b:latest: no such host", "--pull missing", true,
		},
		"here, but Always": {
			corev1.PullAlways, "pull docker.io/library/b:latest: no such host (" + runtime.ImagePresent + ", but)", "no such host", false,
		},
	} {
		for _, reason := range []string{"ErrImagePull", "ImagePullBackOff"} {
			t.Run(name+", "+reason, func(t *testing.T) {
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "p"}}
				p.Spec.NodeName = "n"
				p.Spec.Containers = []corev1.Container{{Name: "c", Image: "b", ImagePullPolicy: tc.policy}}
				p.Status.Phase = corev1.PodPending
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: tc.message},
				}}}
				said := Pod(World{Now: now}, p, nil)
				for _, c := range said.Causes {
					if c.Type != "ImagePull" {
						continue
					}
					imports := strings.Contains(strings.Join(c.Help, "\n"), "image import")
					if !strings.Contains(c.Message, tc.words) || imports != tc.imports {
						t.Errorf("%s\n%q", c.Message, c.Help)
					}
					return
				}
				t.Errorf("no cause: %+v", said)
			})
		}
	}
}

// TestADeadlineThatHasPassed: a container that ignores SIGTERM is killed at a time that is known.
func TestADeadlineThatHasPassed(t *testing.T) {
	for seconds, want := range map[int64]string{100: "Deadline", 15: "DeadlinePassed"} {
		p := failedPod(0, "")
		p.Status.Phase, p.Status.ContainerStatuses = corev1.PodRunning, nil
		p.Status.StartTime = &metav1.Time{Time: now.Add(-36 * time.Second)}
		p.Spec.ActiveDeadlineSeconds, p.Spec.TerminationGracePeriodSeconds = &seconds, ptr.To[int64](30)
		c := why.Find(Pod(World{Now: now}, p, nil).Causes, want)
		if c == nil || want == "DeadlinePassed" && (c.Until.Sub(now) != 9*time.Second || now.Sub(c.Since.Time) != 21*time.Second) {
			t.Errorf("%d: %+v", seconds, c)
		}
	}
}

// TestWhyAClaimIsNotBound: the pod that waits for it says what the claim waits for.
func TestWhyAClaimIsNotBound(t *testing.T) {
	for name, tc := range map[string]struct {
		phase  corev1.PersistentVolumeClaimPhase
		event  *corev1.Event
		missed bool // there is no claim
		words  string
	}{
		"its volume does not exist": {
			corev1.ClaimPending, &corev1.Event{Reason: "FailedBinding", Message: `volume "v" does not exist yet`}, false, `volume "v" does not exist yet.`,
		},
		"a foreign provisioner":  {corev1.ClaimPending, &corev1.Event{Reason: "ExternalProvisioning", Message: "Waiting for it"}, false, "Waiting for it."},
		"it has lost its volume": {corev1.ClaimLost, &corev1.Event{Reason: "ClaimLost", Message: "Data is lost!"}, false, "Data is lost!"},
		"it waits for the pod":   {corev1.ClaimPending, &corev1.Event{Reason: "WaitForFirstConsumer", Message: "waiting"}, false, ""},
		"nothing was said":       {corev1.ClaimPending, nil, false, ""},
		"it is bound":            {corev1.ClaimBound, &corev1.Event{Reason: "FailedBinding", Message: "before"}, false, ""},
		"there is none":          {"", nil, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "p"}}
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}}
			p.Status.Phase = corev1.PodPending
			said := Pod(World{Now: now, Claim: func(_, name string) (*corev1.PersistentVolumeClaim, *corev1.Event) {
				if tc.missed {
					return nil, nil
				}
				c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n"}}
				c.Spec.VolumeName, c.Status.Phase = "v", tc.phase
				return c, tc.event
			}}, p, nil)
			got := ""
			for _, c := range said.Causes {
				if c.Type == "ClaimUnbound" && c.Object.Name == "data" {
					got = c.Message
				}
			}
			if got == "" != (tc.words == "") || !strings.HasSuffix(got, tc.words) {
				t.Errorf("%q, want %q", got, tc.words)
			}
		})
	}
}

// TestProgramsThatNeverRan: the last line of the OCI runtime says so, in the words of crun and of runc.
func TestProgramsThatNeverRan(t *testing.T) {
	for line, want := range map[string]string{
		"{\"msg\":\"exec container process (missing dynamic library?) `/s/x.sh`: No such file or " +
			"directory\",\"level\":\"error\"}": "/s/x.sh: its interpreter is missing (CRLF in its first line?)",
		"{\"msg\":\"exec container process `/s/arch`: Exec format error\",\"level\":\"error\"}": "/s/arch is for another processor, or no program",
		"exec /s/x.sh: no such file or directory":                                               "/s/x.sh: its interpreter is missing (CRLF in its first line?)",
		"exec /s/arch: exec format error":                                                       "/s/arch is for another processor, or no program",
		"cannot open /s/x: No such file or directory":                                           "exit code 1 of container c",
		"I exec /s/x: exec format error":                                                        "exit code 1 of container c",
		"":                                                                                      "exit code 1 of container c",
	} {
		w := World{Now: now, Log: func(*corev1.Pod, string, bool) []string { return []string{"before", line} }}
		if said := Pod(w, failedPod(1, "Error"), nil); said.Reason != want {
			t.Errorf("%q: %q, want %q", line, said.Reason, want)
		} else if text := said.Causes[0].Message; strings.ContainsFunc(text, unicode.IsControl) || strings.Contains(text,
			"CRLF") && !strings.Contains(text, `'s/\r$//'`) {
			t.Errorf("%q: what it says cannot be typed: %q", line, text) // a terminal does not show a carriage return
		}
	}
}

// Beside an index stand its values, and a Job that was left without its ConfigMap says so.
func TestWhyShowsTheValuesOfAnIndex(t *testing.T) {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "sweep", Annotations: map[string]string{batch.IndexEnvAnnotation: "values"}}}
	j.Spec.Completions, j.Spec.CompletionMode = ptr.To[int32](4), ptr.To(batchv1.IndexedCompletion)
	var pods []*corev1.Pod
	for _, index := range []string{"2", "0", "3"} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "sweep-" + index, Annotations: map[string]string{
			batchv1.JobCompletionIndexAnnotation: index,
		}}}
		p.Status.Phase = corev1.PodFailed
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"},
		}}}
		pods = append(pods, p)
	}
	w := World{Now: time.Unix(1000, 0), Source: why.FromRecords, Values: &batch.IndexValues{
		IndexEnv: batch.IndexEnv{ConfigMap: "values", Keys: []string{"lr"}}, Data: map[string]string{"0.lr": "a", "2.lr": "b", "3.lr": "c"},
	}}
	said := false
	for _, c := range Job(w, j, pods).Causes {
		said = said || c.Message == "this pod for index 0 (lr=a) failed, and 2 other pods (index 2: lr=b; 3: lr=c) failed in the same way." &&
			c.Details["values"] == "lr=a"
		t.Log(c.Message)
	}
	if !said {
		t.Error("the values are missing")
	}
	if got := Pod(w, pods[0], j).Message; !strings.HasSuffix(got, " Its index is 2: lr=b.") {
		t.Errorf("of a pod: %q", got)
	}

	j.Spec.Suspend = ptr.To(true)
	w.Values, w.Missing = nil, func(kind, _, name string) (bool, bool) { return kind == "ConfigMap" && name == "values", true }
	for _, c := range Job(w, j, nil).Causes {
		if c.Type == "Suspended" && strings.Contains(c.Message, "The ConfigMap values with the values of its indexes") &&
			c.Help[0] == "jobctl delete jobs/sweep" {
			return
		}
	}
	t.Error("nothing says that the ConfigMap is missing")
}

// It is not said that others have succeeded where there are none.
func TestTheRestOfFailedIndexes(t *testing.T) {
	for completed, want := range map[string]string{"": "None has succeeded.", "2": "All others have succeeded."} {
		j := newJob(func(j *batchv1.Job) {
			j.Status.Conditions = ends(batchv1.JobFailed, "FailedIndexes")
			j.Status.FailedIndexes, j.Status.CompletedIndexes = ptr.To("0-1"), completed
		})
		said := Job(World{Now: now, Source: why.FromRecords, Log: func(*corev1.Pod, string, bool) []string { return nil }}, j, nil)
		if len(said.Causes) == 0 || !strings.Contains(said.Causes[0].Message, want) {
			t.Errorf("with %q: %+v", completed, said.Causes)
		}
	}
}

// TestLogsOfWhatNeverStarted are not advised: there are none.
func TestLogsOfWhatNeverStarted(t *testing.T) {
	for name, tc := range map[string]struct {
		started metav1.Time
		want    bool
	}{
		"it ran": {metav1.NewTime(now.Add(-time.Second)), true}, "it could not be started": {metav1.Unix(0, 0), false},
	} {
		p := failedPod(128, "StartError")
		p.Status.ContainerStatuses[0].State.Terminated.StartedAt = tc.started
		j := newJob(func(j *batchv1.Job) {
			j.Status.Conditions = ends(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded)
		})
		said := Job(World{Now: now, Source: why.FromRecords}, j, []*corev1.Pod{p})
		of := slices.IndexFunc(said.Causes, func(c why.Cause) bool { return c.Object != nil && c.Object.Name == p.Name })
		if of < 0 || slices.ContainsFunc(said.Causes[of].Help, func(h string) bool { return strings.Contains(h, "jobctl logs") }) != tc.want {
			t.Errorf("%s: %+v", name, said.Causes)
		}
	}
}
