package hold

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/jobd/jobd/api/batch"
	wire "github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// Outcome is what is known of a Job for which others wait.
type Outcome struct {
	// Exists says that its object is there, State is its state then (batch.State).
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

// gone returns what is known of a Job whose object is gone.
func (o Outcome) gone(now time.Time) Outcome {
	if o.Result == "" {
		o.Result, o.Ended = wire.Deleted, now
	}
	o.Exists, o.State = false, ""
	return o
}

// Past returns what the history has of a Job whose object is gone: the last one of that name that has ended since a time.
func Past(s *store.Snapshot, namespace, name string, since time.Time) (Outcome, error) {
	page, _, err := history.Read(s, wire.Query{Namespace: namespace, Name: name, Since: since, Limit: 1})
	if err != nil || len(page) == 0 {
		return Outcome{}, err
	}
	return Outcome{Result: page[0].Result, Ended: page[0].Ended.Time}, nil
}

// Lookup returns what is stored of a Job: its object or, if that is gone, what the history has.
func Lookup(s *store.Snapshot, namespace, name string) (Outcome, error) {
	j := &batchv1.Job{}
	if ok, err := objects.Read(s, store.Key(objects.Jobs, namespace, name), j); ok || err != nil {
		return OutcomeOf(j), err
	}
	return Past(s, namespace, name, time.Time{})
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

// Judge says how a need of a Job stands that was created at a time. What has ended before, and is gone, is not meant: in files that
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

// Need is a need of a Job, and how it stands.
type Need struct {
	batch.Need
	Outcome Outcome
	Verdict Verdict
}

// Needs returns how the needs of a Job stand by what is stored.
func Needs(s *store.Snapshot, j *batchv1.Job) ([]Need, error) {
	var all []Need
	for _, n := range batch.After(j.Annotations) {
		o, err := Lookup(s, j.Namespace, n.Name)
		if err != nil {
			return nil, err
		}
		all = append(all, Need{n, o, Judge(n, o, j.CreationTimestamp.Time)})
	}
	return all, nil
}

// told returns what an event says of a Job whose needs are met.
func told(needs []batch.Need, outcomes []Outcome) string {
	var said []string
	for i, n := range needs {
		said = append(said, n.Name+" "+Ended(outcomes[i].Result))
	}
	return fmt.Sprintf("%s (%s)", strings.Join(said, ", "), batch.AfterAnnotation)
}

// Ended says how a Job has ended: "has completed".
func Ended(result string) string {
	switch result {
	case wire.Complete:
		return "has completed"
	case wire.Failed:
		return "has failed"
	}
	return "was deleted before it had ended"
}
