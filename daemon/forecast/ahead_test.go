package forecast

import (
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/daemon/hold"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/prospect"
	"github.com/jobd/jobd/store"
)

// some are Jobs by their keys, of none of which there was an earlier run.
type some map[string]*batchv1.Job

func (s some) Job(key string) (*batchv1.Job, error) { return s[key], nil }

func (s some) Outcome(namespace string, n batch.Need) (hold.Outcome, error) {
	if j := s[store.Key(objects.Jobs, namespace, n.Name)]; j != nil {
		return hold.OutcomeOf(j), nil
	}
	return hold.Outcome{}, nil
}

func (some) Namespace(string) (map[string]string, error) { return nil, nil }

func (some) Earlier(*batchv1.Job) (jobs, pods Runs, err error) { return nil, nil, nil }

// However long a chain of Jobs is that wait for one another, only so much of it is looked at, and why says so.
func TestChainsOfJobsHaveAnEnd(t *testing.T) {
	const long = 3 * maxSteps
	known, jobs := some{}, make([]*batchv1.Job, long)
	for i := range jobs {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprint("j", i), UID: types.UID(fmt.Sprint(i))}}
		j.Spec.Suspend = ptr.To(true)
		if i > 0 {
			j.Annotations = map[string]string{batch.AfterAnnotation: fmt.Sprint("j", i-1)}
		}
		known[objects.Key(objects.Jobs, j)], jobs[i] = j, j
	}
	for name, c := range map[string]struct {
		of  *batchv1.Job
		why string
	}{
		"near its beginning": {jobs[10], "jobs/j0 is suspended"}, "at its end": {jobs[long-1], tooMany},
	} {
		a := NewAhead(prospect.Outlook{MaxPods: 10}, nil, nil, nil, now)
		said, err := a.Of(known, c.of, now)
		if err != nil || said.Unknown != c.why || a.steps > maxSteps+1 {
			t.Errorf("%s: %q after %d steps, want %q: %v", name, said.Unknown, a.steps, c.why, err)
		}
	}
}
