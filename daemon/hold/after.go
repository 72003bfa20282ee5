package hold

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	wire "github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// Outcome is what is known of a Job or a JobSet for which others wait.
type Outcome struct {
	// Exists says that its object is there, State is its state then (batch.State, jobset.State).
	Exists bool
	State  string
	// Result is how it has ended, as the history has it: Complete, Failed or Deleted; empty if it has not, or nothing is known.
	Result string
	Ended  time.Time
}

// OutcomeOf returns what a Job says of itself.
func OutcomeOf(j *batchv1.Job) Outcome {
	o := Outcome{Exists: true, State: batch.State(j)}
	if end := batch.End(&j.Status); end != nil {
		o.Result, o.Ended = string(end.Type), end.LastTransitionTime.Time
	}
	return o
}

// OutcomeOfSet returns what a JobSet says of itself.
func OutcomeOfSet(js *jobsetv1.JobSet) Outcome {
	o := Outcome{Exists: true, State: jobset.State(js)}
	if end := jobset.End(&js.Status); end != nil {
		o.Result, o.Ended = string(jobset.Result(&js.Status)), end.LastTransitionTime.Time
	}
	return o
}

// keyOf returns the key of what is needed.
func keyOf(namespace string, n batch.Need) string {
	if n.Set {
		return store.Key(objects.JobSets, namespace, n.Name)
	}
	return store.Key(objects.Jobs, namespace, n.Name)
}

// gone returns what is known of a Job whose object is gone.
func (o Outcome) gone(now time.Time) Outcome {
	if o.Result == "" {
		o.Result, o.Ended = wire.Deleted, now
	}
	o.Exists, o.State = false, ""
	return o
}

// Past returns what the history has of a Job or a JobSet whose object is gone: the last one of that name that has ended since a time.
func Past(s *store.Snapshot, namespace string, n batch.Need, since time.Time) (Outcome, error) {
	q := wire.Query{Namespace: namespace, Name: n.Name, Since: since, Limit: 1}
	if n.Set {
		q.Name, q.JobSet = "", n.Name
	}
	page, _, err := history.Read(s, q)
	if err != nil || len(page) == 0 {
		return Outcome{}, err
	}
	return Outcome{Result: page[0].Result, Ended: page[0].Ended.Time}, nil
}

// Lookup returns what is stored of a Job or a JobSet: its object or, if that is gone, what the history has.
func Lookup(s *store.Snapshot, namespace string, n batch.Need) (Outcome, error) {
	if n.Set {
		js := &jobsetv1.JobSet{}
		if ok, err := objects.Read(s, keyOf(namespace, n), js); ok || err != nil {
			return OutcomeOfSet(js), err
		}
		return Past(s, namespace, n, time.Time{})
	}
	j := &batchv1.Job{}
	if ok, err := objects.Read(s, keyOf(namespace, n), j); ok || err != nil {
		return OutcomeOf(j), err
	}
	return Past(s, namespace, n, time.Time{})
}

// Verdict says how a need stands.
type Verdict uint8

const (
	// Pending: the Job has not ended.
	Pending Verdict = iota
	// Met: nothing is to be waited for.
	Met
	// Missed: it has ended otherwise. Only another attempt of it can still meet the need.
	Missed
	// Unknown: there is no such Job yet, or none that has ended since the other was created.
	Unknown
)

// Judge says how a need stands of a Job or a JobSet that was created at a time. What has ended before, and is gone, is not meant: in files that
// are applied again, one in any order, it is the former run.
func Judge(n batch.Need, o Outcome, created time.Time) Verdict {
	switch {
	case !o.Exists && (o.Result == "" || o.Ended.Unix() < created.Unix()):
		return Unknown
	case o.Result == "":
		return Pending
	case n.Met(batchv1.JobConditionType(o.Result)):
		return Met
	}
	return Missed
}

// Need is a need of a Job or a JobSet, and how it stands.
type Need struct {
	batch.Need
	Outcome Outcome
	Verdict Verdict
}

// Needs returns how the needs of a Job or a JobSet stand by what is stored.
func Needs(s *store.Snapshot, of metav1.Object) ([]Need, error) {
	var all []Need
	for _, n := range batch.After(of.GetAnnotations()) {
		o, err := Lookup(s, of.GetNamespace(), n)
		if err != nil {
			return nil, err
		}
		all = append(all, Need{n, o, Judge(n, o, of.GetCreationTimestamp().Time)})
	}
	return all, nil
}

// told returns what an event says of needs that are met.
func told(needs []batch.Need, outcomes []Outcome) string {
	var said []string
	for i, n := range needs {
		said = append(said, n.Ref()+" "+Ended(outcomes[i].Result))
	}
	return fmt.Sprintf("%s (%s)", strings.Join(said, ", "), batch.AfterAnnotation)
}

// Ended says how a Job or a JobSet has ended: "has completed".
func Ended(result string) string {
	switch result {
	case wire.Complete:
		return "has completed"
	case wire.Failed:
		return "has failed"
	}
	return "was deleted before it had ended"
}
