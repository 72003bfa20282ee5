package clients

import (
	"math"
	"slices"
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
	// orphan is a deletion that lets dependents go, as is the default for Jobs. It only marks the object: the garbage collector
	// removes it.
	orphan bool
}

// An answer is what the client was told.
type answer struct {
	outcome outcome
	value   string // that a get has found
	version string // after a create or update, and that a get has found
	leaving bool   // it is marked as deleted. An update of such an object lets go its finalizers and so removes it.
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
	there, leaving bool
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
	case r.verb == "delete" && r.orphan && s.leaving:
		return s, done
	case r.verb == "delete" && r.orphan:
		return state{there: true, leaving: true, value: s.value}, done
	case r.verb == "delete" || s.leaving:
		return state{}, done
	}
	return state{there: true, value: r.value}, done
}

// next are the states that an answered request may leave. The garbage collector may have been faster.
func (s state) next(r question, a answer) []state {
	after := s.answered(r, a)
	if s.leaving {
		after = append(after, state{}.answered(r, a)...)
	}
	return after
}

func (s state) answered(r question, a answer) []state {
	after, says := s.apply(r)
	switch {
	case a.outcome == unknown && says == done:
		return []state{s, after}
	case a.outcome == unknown:
		return []state{s}
	case a.outcome != says || a.leaving != (s.leaving && r.verb != "delete" && says == done):
		return nil
	case says != done:
	case r.verb == "get" && a.value != s.value,
		(r.verb == "get" || s.leaving && r.verb == "update") && s.version != "" && s.version != a.version:
		return nil
	case after.there && r.verb != "delete":
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
	ask := func(verb, value, version string) question {
		return question{verb: verb, object: "o", value: value, version: version}
	}
	create := told{ask("create", "a", ""), answer{outcome: done, version: "1"}, 1, 2}
	lost := told{ask("update", "b", ""), answer{}, 3, math.MaxInt64}
	get := func(a answer, at int64) told { return told{ask("get", "", ""), a, at, at + 1} }
	found := func(value, version string) answer { return answer{outcome: done, value: value, version: version} }
	leaving := func(value, version string) answer { return answer{done, value, version, true} }
	orphan := told{question{verb: "delete", object: "o", orphan: true}, answer{outcome: done}, 3, 4}
	for name, test := range map[string]struct {
		history  []told
		explains bool
	}{
		"read back":                              {[]told{create, get(found("a", "1"), 3)}, true},
		"lost":                                   {[]told{create, get(answer{outcome: absent}, 3)}, false},
		"read before it was written":             {[]told{get(found("a", "1"), -1), create}, false},
		"of no write":                            {[]told{create, get(found("b", "2"), 3)}, false},
		"created twice":                          {[]told{create, {ask("create", "b", ""), answer{outcome: done, version: "2"}, 3, 4}}, false},
		"unanswered and done":                    {[]told{create, lost, get(found("b", "2"), 5)}, true},
		"unanswered and not done":                {[]told{create, lost, get(found("a", "1"), 5)}, true},
		"unanswered, done, and undone":           {[]told{create, lost, get(found("b", "2"), 5), get(found("a", "1"), 7)}, false},
		"one value with two versions":            {[]told{create, lost, get(found("b", "2"), 5), get(found("b", "3"), 7)}, false},
		"a precondition that was passed over":    {[]told{create, {ask("update", "b", "0"), answer{outcome: done, version: "2"}, 3, 4}}, false},
		"a precondition that was met":            {[]told{create, {ask("delete", "", "1"), answer{outcome: done}, 3, 4}}, true},
		"marked, seen, and removed":              {[]told{create, orphan, get(leaving("a", "2"), 5), get(answer{outcome: absent}, 7)}, true},
		"marked, and removed unseen":             {[]told{create, orphan, {ask("create", "b", ""), answer{outcome: done, version: "2"}, 5, 6}}, true},
		"marked, and in the way":                 {[]told{create, orphan, {ask("create", "b", ""), answer{outcome: exists}, 5, 6}}, true},
		"marked, and seen without the mark":      {[]told{create, orphan, get(found("a", "1"), 5)}, false},
		"removed, and back":                      {[]told{create, orphan, get(answer{outcome: absent}, 5), get(leaving("a", "2"), 7)}, false},
		"removed by an update":                   {[]told{create, orphan, {ask("update", "b", ""), leaving("b", "2"), 5, 6}, get(answer{outcome: absent}, 7)}, true},
		"removed by an update, and back":         {[]told{create, orphan, {ask("update", "b", ""), leaving("b", "2"), 5, 6}, get(leaving("a", "2"), 7)}, false},
		"a conflict with the version that it is": {[]told{create, {ask("delete", "", "1"), answer{outcome: conflict}, 3, 4}}, false},
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
