package clients

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
)

// A question is what a client asks of one object.
type question struct {
	verb   string // get, create, update, delete
	object string
	value  string // that a create or update writes; no two write the same
	// version is that which an update or deletion asks to find; empty for any.
	version string
}

// An answer is what the client was told.
type answer struct {
	outcome outcome
	value   string // that a get has found
	version string // after a create or update, and that a get has found
}

type outcome int

const (
	unknown outcome = iota // the connection broke: done or not, now or later
	done
	exists
	conflict
	absent
)

func (o outcome) String() string {
	return [...]string{"unknown", "done", "exists", "conflict", "absent"}[o]
}

// state is what one object is: absent, or with a value that was written and the version of that write, which is empty as long as
// nobody was told of it.
type state struct {
	there          bool
	value, version string
}

// apply tells what a request makes of the object, and what is answered.
func (s state) apply(r question) (state, outcome) {
	switch {
	case r.verb == "create" && s.there:
		return s, exists
	case r.verb == "create":
		return state{there: true, value: r.value}, done
	case !s.there:
		return s, absent
	case r.verb == "get":
		return s, done
	case r.version != "" && r.version != s.version:
		return s, conflict
	case r.verb == "delete":
		return state{}, done
	}
	return state{there: true, value: r.value}, done
}

// next are the states that an answered request may leave.
func (s state) next(r question, a answer) []state {
	after, says := s.apply(r)
	switch {
	case a.outcome == unknown && says == done:
		return []state{s, after}
	case a.outcome == unknown:
		return []state{s}
	case r.verb == "delete" && a.outcome == done && says == absent && strings.HasPrefix(r.object, "jobs."):
		// The API server of a cluster deletes in two steps where dependents may follow, and calls it done if somebody else was
		// faster with the second.
		return []state{s}
	case a.outcome != says:
		return nil
	case says == done && r.verb == "get":
		if a.value != s.value || s.version != "" && s.version != a.version {
			return nil
		}
		after.version = a.version
	case says == done && after.there:
		after.version = a.version
	}
	return []state{after}
}

// objects is the model of an API that is linearizable: each object goes from one state to the next at some moment between a request
// and its answer.
var objects = func() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byObject := map[string][]porcupine.Operation{}
			for _, o := range history {
				name := o.Input.(question).object
				byObject[name] = append(byObject[name], o)
			}
			var parts [][]porcupine.Operation
			for name := range keys(byObject) {
				parts = append(parts, byObject[name])
			}
			return parts
		},
		Init: func() []any { return []any{state{}} },
		Step: func(from, input, output any) []any {
			var to []any
			for _, s := range from.(state).next(input.(question), output.(answer)) {
				to = append(to, s)
			}
			return to
		},
	}
	return m.ToModel()
}()

// version is a state of an object in the log of the database.
type version struct {
	version uint64
	deleted bool
}

// at is the version that the log has for an object at a version of the whole, 0 for none.
func at(log []version, whole uint64) uint64 {
	i := slices.IndexFunc(log, func(v version) bool { return v.version > whole })
	if i < 0 {
		i = len(log)
	}
	if i == 0 || log[i-1].deleted {
		return 0
	}
	return log[i-1].version
}

// TestHistoriesThatNothingExplains: the model finds what must never be.
func TestHistoriesThatNothingExplains(t *testing.T) {
	type told struct {
		question
		answer
		call, answered int64
	}
	create := told{question{"create", "o", "a", ""}, answer{done, "", "1"}, 1, 2}
	lost := told{question{"update", "o", "b", ""}, answer{}, 3, math.MaxInt64}
	get := func(a answer, at int64) told { return told{question{"get", "o", "", ""}, a, at, at + 1} }
	for name, test := range map[string]struct {
		history  []told
		explains bool
	}{
		"read back":                              {[]told{create, get(answer{done, "a", "1"}, 3)}, true},
		"lost":                                   {[]told{create, get(answer{outcome: absent}, 3)}, false},
		"read before it was written":             {[]told{get(answer{done, "a", "1"}, -1), create}, false},
		"of no write":                            {[]told{create, get(answer{done, "b", "2"}, 3)}, false},
		"created twice":                          {[]told{create, {question{"create", "o", "b", ""}, answer{done, "", "2"}, 3, 4}}, false},
		"unanswered and done":                    {[]told{create, lost, get(answer{done, "b", "2"}, 5)}, true},
		"unanswered and not done":                {[]told{create, lost, get(answer{done, "a", "1"}, 5)}, true},
		"unanswered, done, and undone":           {[]told{create, lost, get(answer{done, "b", "2"}, 5), get(answer{done, "a", "1"}, 7)}, false},
		"one value with two versions":            {[]told{create, lost, get(answer{done, "b", "2"}, 5), get(answer{done, "b", "3"}, 7)}, false},
		"a precondition that was passed over":    {[]told{create, {question{"update", "o", "b", "0"}, answer{done, "", "2"}, 3, 4}}, false},
		"a precondition that was met":            {[]told{create, {question{"delete", "o", "", "1"}, answer{outcome: done}, 3, 4}}, true},
		"a conflict with the version that it is": {[]told{create, {question{"delete", "o", "", "1"}, answer{outcome: conflict}, 3, 4}}, false},
	} {
		var history []porcupine.Operation
		for i, o := range test.history {
			history = append(history, porcupine.Operation{ClientId: i, Input: o.question, Output: o.answer, Call: o.call, Return: o.answered})
		}
		if explains := porcupine.CheckOperations(objects, history); explains != test.explains {
			t.Errorf("%s: %v", name, explains)
		}
	}
}
