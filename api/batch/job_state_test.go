package batch

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"
)

func TestState(t *testing.T) {
	for name, tc := range map[string]struct{ job, want string }{
		"it is new":                  {`{}`, StateWaiting},
		"its pods wait":              {`{status: {active: 2, startTime: '2026-11-20T13:39:00Z', ready: 0}}`, StateWaiting},
		"a pod runs":                 {`{status: {active: 2, ready: 1}}`, StateRunning},
		"it is paused":               {`{metadata: {annotations: {jobd.dev/paused-at: "2026-01-01T00:00:00Z"}}, status: {active: 1, ready: 1}}`, StatePaused},
		"it is suspended and paused": {`{metadata: {annotations: {jobd.dev/paused-at: "2026-01-01T00:00:00Z"}}, spec: {suspend: true}}`, StateSuspended},
		"it is paused while it waits for another": {
			`{metadata: {annotations: {jobd.dev/paused-at: "2026-01-01T00:00:00Z", jobd.dev/after: a}}, spec: {suspend: true}}`, StatePaused,
		},
		"it is paused while it waits for its time": {
			`{metadata: {annotations: {jobd.dev/paused-at: "2026-01-01T00:00:00Z", jobd.dev/start-at: "2036-01-01T00:00:00Z"}}, spec: {suspend: true}}`,
			StatePaused,
		},
		"all its pods are preempted": {
			`{status: {active: 1, ready: 1, conditions: [{type: jobd.dev/Paused, status: 'True', reason: Preempted}]}}`, StatePreempted,
		},
		"some of its pods are preempted": {
			`{status: {active: 2, ready: 2, conditions: [{type: jobd.dev/Paused, status: 'True', reason: PodsPreempted}]}}`, StateRunning,
		},
		"it is preempted, and paused by somebody": {
			`{metadata: {annotations: {jobd.dev/paused-at: "2026-01-01T00:00:00Z"}}, status: {active: 1,
				conditions: [{type: jobd.dev/Paused, status: 'True', reason: Preempted}]}}`, StatePaused,
		},
		"it is suspended":            {`{spec: {suspend: true}, status: {active: 1, ready: 1}}`, StateSuspended},
		"it was resumed just now":    {`{spec: {suspend: false}, status: {conditions: [{type: Suspended, status: 'True'}]}}`, StateWaiting},
		"it fails":                   {`{status: {ready: 1, conditions: [{type: FailureTarget, status: 'True'}]}}`, StateFailing},
		"it fails, and is suspended": {`{spec: {suspend: true}, status: {conditions: [{type: FailureTarget, status: 'True'}]}}`, StateFailing},
		"it completes":               {`{status: {ready: 1, conditions: [{type: SuccessCriteriaMet, status: 'True'}]}}`, StateCompleting},
		"a condition that is false":  {`{status: {conditions: [{type: Failed, status: 'False'}]}}`, StateWaiting},
		"it is complete": {
			`{status: {conditions: [{type: SuccessCriteriaMet, status: 'True'}, {type: Complete, status: 'True'}]}}`,
			StateComplete,
		},
		"it has failed": {
			`{status: {conditions: [{type: FailureTarget, status: 'True'}, {type: Failed, status: 'True'}]}}`, StateFailed,
		},
		"it has failed, and is being deleted": {
			`{metadata: {deletionTimestamp: '2026-11-20T13:39:00Z'}, status: {conditions: [{type: Failed, status: 'True'}]}}`,
			StateFailed,
		},
		"it is being deleted": {`{metadata: {deletionTimestamp: '2026-11-20T13:39:00Z'}, status: {active: 1, ready: 1}}`, StateTerminating},
		"it is being deleted, and was to fail": {
			`{metadata: {deletionTimestamp: '2026-11-20T13:39:00Z'}, status: {conditions: [{type: FailureTarget, status: 'True'}]}}`,
			StateTerminating,
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := &batchv1.Job{}
			if err := yaml.UnmarshalStrict([]byte(tc.job), j); err != nil {
				t.Fatal(err)
			}
			if got := State(j); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
