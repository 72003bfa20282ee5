package answers

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	wire "github.com/jobd/jobd/api/forecast"
	"github.com/jobd/jobd/daemon/control"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/prospect"
	"github.com/jobd/jobd/store"
)

// onNode is what is on the machine.
type onNode struct{ is control.Outlook }

func (o onNode) Outlook(context.Context, int) (control.Outlook, error) { return o.is, nil }

// A Job of two pods, of which one has succeeded in an hour, and that was paused for ten.
func TestWhatIsExpectedOfAJobThatWasPaused(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "db"), store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	start := time.Now().Add(-11 * time.Hour)
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "j", UID: "u"}}
	j.Spec.Completions, j.Status.StartTime = ptr.To[int32](2), ptr.To(metav1.NewTime(start))
	j.Status.Active, j.Status.Succeeded = 1, 1
	j.Annotations = map[string]string{batch.PausedForAnnotation: "10h0m0s"}
	for name, c := range map[string]struct {
		deadline time.Duration
		paused   bool
		in       time.Duration // from now on; 0: nobody knows
		basis    string
	}{
		"at its rate, without the pause":  {0, false, time.Hour, wire.Rate},
		"by its deadline, with the pause": {90 * time.Minute, false, 30 * time.Minute, wire.Deadline},
		"while it is paused nobody knows": {90 * time.Minute, true, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			j := j.DeepCopy()
			if c.deadline > 0 {
				j.Spec.ActiveDeadlineSeconds = ptr.To(int64(c.deadline / time.Second))
			}
			runs := prospect.Outlined{UID: "p", Pods: 1, Started: start, PausedFor: 10 * time.Hour, Frozen: c.paused}
			if c.paused {
				j.Annotations[batch.PausedAnnotation] = time.Now().Format(time.RFC3339)
			}
			f := &Forecasts{store: s, loop: onNode{control.Outlook{
				Outlook: prospect.Outlook{MaxPods: 10, Running: []prospect.Outlined{runs}},
				Jobs:    map[types.UID]control.OfJob{"p": {UID: "u", Key: objects.Key(objects.Jobs, j)}},
			}}}
			said, err := f.forecast(t.Context(), j)
			switch {
			case err != nil:
				t.Fatal(err)
			case c.in == 0 && said.Ends != nil:
				t.Errorf("it ends at %v", said.Ends)
			case c.in == 0:
			case said.Ends == nil || said.Ends.Basis != c.basis || (time.Until(said.Ends.At.Time)-c.in).Abs() > 10*time.Minute:
				t.Errorf("it is expected to end %+v, want in %s", said.Ends, c.in)
			}
		})
	}
}
