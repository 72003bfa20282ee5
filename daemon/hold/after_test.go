package hold

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"pgregory.net/rapid"

	"github.com/jobd/jobd/api/batch"
	wire "github.com/jobd/jobd/api/history"
)

func TestJudge(t *testing.T) {
	created := time.Unix(1_700_000_000, 0)
	before, after := created.Add(-time.Second), created.Add(time.Hour)
	ended := func(exists bool, result string, at time.Time) Outcome {
		return Outcome{Exists: exists, Result: result, Ended: at}
	}
	for _, c := range []struct {
		name                string
		outcome             Outcome
		ok, anyEnd, failure Verdict
	}{
		{"nobody knows it", Outcome{}, Unknown, Unknown, Unknown},
		{"it runs", Outcome{Exists: true}, Pending, Pending, Pending},
		{"it has completed", ended(true, wire.Complete, after), Met, Met, Missed},
		{"it has failed", ended(true, wire.Failed, after), Missed, Met, Met},
		{"it had ended before, and is still there", ended(true, wire.Complete, before), Met, Met, Missed},
		{"it has completed, and is gone", ended(false, wire.Complete, after), Met, Met, Missed},
		{"it has failed, and is gone", ended(false, wire.Failed, created), Missed, Met, Met},
		{"it was deleted", ended(false, wire.Deleted, after), Missed, Met, Missed},
		{"it had ended before, and is gone", ended(false, wire.Complete, before), Unknown, Unknown, Unknown},
	} {
		for when, want := range map[string]Verdict{batch.NeedOK: c.ok, batch.NeedAny: c.anyEnd, batch.NeedFailed: c.failure} {
			if got := Judge(batch.Need{Name: "a", When: when}, c.outcome, created); got != want {
				t.Errorf("%s, %s: %d, want %d", c.name, when, got, want)
			}
		}
	}
}

// Whatever has become of a Job, "any" is met if one of the others is, and no two of the others are at once.
func TestVerdictsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		created := time.Unix(1000, 0)
		o := Outcome{
			Exists: rapid.Bool().Draw(t, "exists"),
			Result: rapid.SampledFrom([]string{"", wire.Complete, wire.Failed, wire.Deleted}).Draw(t, "result"),
			Ended:  time.Unix(rapid.Int64Range(990, 1010).Draw(t, "ended"), 0),
		}
		met := func(when string) bool { return Judge(batch.Need{When: when}, o, created) == Met }
		if met(batch.NeedOK) && met(batch.NeedFailed) || (met(batch.NeedOK) || met(batch.NeedFailed)) && !met(batch.NeedAny) {
			t.Errorf("%+v: ok %v, failed %v, any %v", o, met(batch.NeedOK), met(batch.NeedFailed), met(batch.NeedAny))
		}
		if o.Result == "" && met(batch.NeedAny) {
			t.Errorf("%+v has not ended", o)
		}
	})
}

func TestWhatIsKnownOfAJobThatGoes(t *testing.T) {
	now := time.Unix(2000, 0)
	if o := OutcomeOf(&batchv1.Job{}).gone(now); o.Exists || o.Result != wire.Deleted || !o.Ended.Equal(now) {
		t.Errorf("%+v", o)
	}
}
