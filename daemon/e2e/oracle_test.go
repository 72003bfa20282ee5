package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/testdata/images"
	"github.com/jobd/jobd/testdata/oracle"
)

// What a real cluster did (testdata/oracle) is done again with real containers: the manifests are posted as they are,
// users act in the recorded order, and everything else is left to jobd. These are compared:
//
//   - the sequence of the Job's states: generation, finalizers, deletion, conditions with type, status, reason and
//     message, all counters and index lists;
//   - pods: index, failure count, order of creation, exit code, restarts, final phase, owner, whether they are gone;
//   - events of the Job and of its pods: type, reason, message, count;
//   - the metrics of the Job controller, after all of it.
//
// Times are not compared; their order is. A container begins its command only when all pods that were created together
// with its own run and, unless a deletion is to end it, when those that ended before it there have ended here, what
// users did before that is done, and those that a deletion is to end are ready for it; beside others that succeed,
// those that fail do so last. This is tolerated:
const (
	// A cluster looks at a Job once a second at most. States of ours that are not recorded must lie between the
	// recorded ones on both sides, in every counter; pods that cease to be active may be terminating meanwhile.
	//
	// There, a pod that ends first ceases to be ready, and is terminal a second later; here, both are one change. And
	// what runs for less than a second may never be ready there. So it is the highest value of ready that is compared,
	// of those reached while all else stayed as it was: here it may be higher, up to active, but not lower.
	//
	// A recorded state may lie between its neighbours, too: then it was seen by chance, and may be missing here.
	//
	// Back-off begins with 4 seconds instead of 10 and ends with 10 instead of 600 (the flags of the daemon): never-b6
	// would take 11 minutes.
	oracleBackoff, oracleBackoffCap = "4s", "10s"
)

// different is what differs in one scenario, and why.
var different = map[string]struct {
	why string
	// terminating: how many pods are, and whether ended ones are deleted. events: their reasons. counts: how often
	// events occurred.
	terminating, counts bool
	events              []string
}{
	"image-missing": {
		why: "nothing runs in the pod, so it ends here with its deletion; a kubelet takes a second for it. How often the " +
			"image is looked for until then is chance",
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

// TestOracleOnContainers runs all scenarios at once in one daemon, each in a namespace of its own.
func TestOracleOnContainers(t *testing.T) {
	t.Parallel()
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
