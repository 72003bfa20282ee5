package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

func eventOf(t *testing.T, manifest string) *corev1.Event {
	t.Helper()
	e := &corev1.Event{}
	if err := yaml.UnmarshalStrict([]byte(manifest), e); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEventStandsWhereItsObjectDoes(t *testing.T) {
	for _, tc := range []struct {
		name, event string
		fine        bool
	}{
		{"in its namespace", `{metadata: {name: e, namespace: a}, involvedObject: {namespace: a}}`, true},
		{"not in another", `{metadata: {name: e, namespace: a}, involvedObject: {namespace: b}}`, false},
		{"that of a node in default", `{metadata: {name: e, namespace: default}, involvedObject: {kind: Node}}`, true},
		{"and nowhere else", `{metadata: {name: e, namespace: a}, involvedObject: {kind: Node}}`, false},
		{"not in kube-system", `{metadata: {name: e, namespace: kube-system}, involvedObject: {kind: Node}}`, false},
		{
			"but for a dated one",
			`{metadata: {name: e, namespace: kube-system}, involvedObject: {kind: Node}, reportingComponent: c, reportingInstance: i, action: A, reason: R, eventTime: '2026-11-20T13:34:18.000000Z'}`,
			true,
		},
		{
			"which may be in another namespace",
			`{metadata: {name: e, namespace: a}, involvedObject: {namespace: b}, reportingComponent: c, reportingInstance: i, action: A, reason: R, eventTime: '2026-11-20T13:34:18.000000Z'}`,
			true,
		},
		{
			"if its object has one",
			`{metadata: {name: e, namespace: a}, involvedObject: {kind: Node}, reportingComponent: c, reportingInstance: i, action: A, reason: R, eventTime: '2026-11-20T13:34:18.000000Z'}`,
			false,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if errs := validateEvent(eventOf(t, tc.event)); (len(errs) == 0) != tc.fine {
				t.Error(errs)
			}
		})
	}
}

// TestNamesOfEvents: recorders name an event after its object, whose name may have any form.
func TestNamesOfEvents(t *testing.T) {
	for _, c := range []struct {
		name         string
		older, newer bool // whether v1 and events.k8s.io take it
	}{
		{"pi-x2b4c.17a4e2", true, true},
		{"system:node.17a4e2", true, false},
		{"Upper_case.17a4e2", true, false},
		{"away.", true, false},
		{"a/b", false, false},
		{"a%b", false, false},
		{"..", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			older := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: c.name, Namespace: "a"}}
			older.InvolvedObject.Namespace = "a"
			if errs := validateEvent(older); (len(errs) == 0) != c.older {
				t.Errorf("v1: %v", errs)
			}
			newer := older.DeepCopy()
			newer.EventTime, newer.Type = metav1.NewMicroTime(someTime), corev1.EventTypeNormal
			newer.ReportingController, newer.ReportingInstance, newer.Action, newer.Reason = "c", "i", "A", "R"
			if errs := validateNewerEvent(newer); (len(errs) == 0) != c.newer {
				t.Errorf("events.k8s.io: %v", errs)
			}
			older.ResourceVersion = "1"
			if errs := validateEventUpdate(older, older); len(errs) > 0 && c.older {
				t.Errorf("an update of it: %v", errs)
			}
		})
	}
}

func TestEventTable(t *testing.T) {
	now := someTime.Add(5 * time.Minute)
	for _, tc := range []struct{ name, event, want string }{
		{"older API", `{metadata: {name: e}, type: Normal, reason: SuccessfulCreate, message: " Created pod: p ", count: 3, involvedObject: {kind: Job, name: j},
			source: {component: job-controller, host: h}, firstTimestamp: '2026-11-20T13:34:18Z', lastTimestamp: '2026-11-20T13:38:18Z'}`,
			"60s Normal SuccessfulCreate job/j  job-controller, h Created pod: p 5m 3 e"},
		{"newer API, once", `{metadata: {name: e}, type: Warning, reason: R, message: m, involvedObject: {kind: Pod, name: p, fieldPath: "spec.containers{c}"},
			reportingComponent: kubelet, eventTime: '2026-11-20T13:34:18.000000Z'}`,
			"5m Warning R pod/p spec.containers{c} kubelet m 5m 1 e"},
		{"newer API, again and again", `{metadata: {name: e}, reason: R, involvedObject: {kind: Node}, eventTime: '2026-11-20T13:34:18.000000Z', series: {count: 4, lastObservedTime: '2026-11-20T13:39:08.000000Z'}}`,
			"10s  R node    5m 4 e"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cells := eventTable().Cells(eventOf(t, tc.event), now)
			if got := fmt.Sprintln(cells...); got != tc.want+"\n" {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestEventFields(t *testing.T) {
	fields := eventFields()
	for name, want := range map[string]string{"source": "old", "involvedObject.kind": "Pod", "type": "Normal"} {
		if got := fields[name](eventOf(t, `{source: {component: old}, reportingComponent: new, involvedObject: {kind: Pod}, type: Normal}`)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := fields["source"](eventOf(t, `{reportingComponent: new}`)); got != "new" {
		t.Errorf("source of an event of the newer API: %q", got)
	}
}

// TestANewerEventIsRefusedInTheSameWords each time, however much of it comes from older ones.
func TestANewerEventIsRefusedInTheSameWords(t *testing.T) {
	event := &corev1.Event{
		EventTime: metav1.NowMicro(), Type: corev1.EventTypeNormal, FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(), Count: 1,
		Source:     corev1.EventSource{Component: "c"},
		ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "default"}, ReportingController: "c", ReportingInstance: "i", Action: "A", Reason: "R",
	}
	const want = `[firstTimestamp: Invalid value: "": needs to be unset, lastTimestamp: Invalid value: "": needs to be unset, count: Invalid value: "": needs to be unset, source: Invalid value: "": needs to be unset]`
	for range 20 {
		if got := validateNewerEvent(event).ToAggregate().Error(); got != want {
			t.Fatalf("got %s", got)
		}
	}
}

func TestEachGroupNamesItsOwnFields(t *testing.T) {
	event := eventOf(t, `{metadata: {name: e, namespace: a}, type: Normal, involvedObject: {namespace: a}, reportingInstance: i, action: A, reason: R,
		eventTime: '2026-11-20T13:34:18.000000Z', series: {count: 1}}`)
	for name, tc := range map[string]struct {
		errs field.ErrorList
		want string
	}{
		"v1":            {validateEvent(event), "reportingComponent reportingComponent reportingComponent"},
		"v1, changed":   {validateEventUpdate(event, event), "metadata.resourceVersion reportingComponent reportingComponent reportingComponent"},
		"events.k8s.io": {validateNewerEvent(event), "reportingController reportingController reportingController series.count series.lastObservedTime"},
		"events.k8s.io, again": {
			validateNewerEventUpdate(event, event),
			"metadata.resourceVersion reportingController reportingController reportingController",
		},
	} {
		var at []string
		for _, err := range tc.errs {
			at = append(at, err.Field)
		}
		if got := strings.Join(at, " "); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
