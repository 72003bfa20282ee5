package events

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
)

// Any history of events is treated as client-go's correlator treats it. Messages do not come back after so many others
// that they are combined: which of them client-go still knows then is left to chance.
func TestEventsAreBoundedAsThoseOfACluster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := testingclock.NewFakeClock(time.Unix(1e9, 0))
		theirs := record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{Clock: clock})
		ours := New("node")
		names := map[string]string{} // theirs -> ours
		messages := 0
		for range rapid.IntRange(1, 120).Draw(t, "events") {
			clock.Step(time.Duration(rapid.SampledFrom([]int{0, 1, 1, 1, 30, 301, 700}).Draw(t, "seconds")) * time.Second)
			object := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "object")
			about := corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: "ns", Name: object, UID: types.UID(object)}
			about.FieldPath = rapid.SampledFrom([]string{"", "spec"}).Draw(t, "field")
			component := rapid.SampledFrom([]string{Kubelet, Scheduler}).Draw(t, "component")
			reason := rapid.SampledFrom([]string{"Started", "Failed"}).Draw(t, "reason")
			message := "the same"
			if rapid.Bool().Draw(t, "other message") {
				messages++
				message = fmt.Sprint(messages)
				reason = "Created"
			}
			got := ours.Event(about, component, corev1.EventTypeNormal, reason, message, clock.Now())

			theirEvent := &corev1.Event{InvolvedObject: about, Reason: reason, Message: message, Type: corev1.EventTypeNormal, Count: 1}
			theirEvent.Name = fmt.Sprintf("their.%x", clock.Now().UnixNano())
			theirEvent.Source.Component = component
			if component == Kubelet {
				theirEvent.Source.Host = "node"
			}
			want, err := theirs.EventCorrelate(theirEvent)
			if err != nil {
				t.Fatal(err)
			}
			if want.Skip != (got == nil) {
				t.Fatalf("event %q %q: dropped %t, want %t", reason, message, got == nil, want.Skip)
			}
			if want.Skip {
				continue
			}
			if got.Message != want.Event.Message || got.Count != want.Event.Count {
				t.Fatalf("%q x%d, want %q x%d", got.Message, got.Count, want.Event.Message, want.Event.Count)
			}
			if got.UID == "" || got.CreationTimestamp.IsZero() || got.FirstTimestamp.IsZero() || !got.LastTimestamp.Time.Equal(clock.Now()) {
				t.Fatalf("%+v", got)
			}
			key := fmt.Sprint(want.Event.Name, object, component, reason, about.FieldPath, want.Event.Message == message)
			if name, ok := names[key]; ok && want.Event.Count > 1 && name != got.Name {
				t.Fatalf("%q is named %s, and was %s before", got.Message, got.Name, name)
			}
			names[key] = got.Name
		}
	})
}

func TestMessagesAreBounded(t *testing.T) {
	r := New("node")
	about := corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: "p", UID: "p"}
	for i := range 2 * similarEvents { // the last ones are combined
		e := r.Event(about, Kubelet, corev1.EventTypeWarning, "Failed", fmt.Sprint(i)+strings.Repeat("x", 1<<20), time.Unix(1e9, 0))
		if e != nil && len(e.Message) != 1024 {
			t.Fatalf("a message of %d bytes", len(e.Message))
		}
	}
}
