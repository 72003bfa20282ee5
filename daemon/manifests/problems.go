package manifests

// trouble is a problem with an object, or with a file or the directory if it has no Ref.
type trouble struct {
	Problem
	of Ref
}

// subject is what troubles are about: an object, wherever it is, or a file.
type subject struct {
	file string
	of   Ref
}

func (t trouble) subject() subject {
	if t.of != (Ref{}) {
		return subject{of: t.of}
	}
	return subject{file: t.File}
}

// maxWords is how many different problems of one subject are remembered: a message may have a number in it that counts.
const maxWords = 10

// told are the problems that were told and are not over.
type told map[subject]map[Problem]bool

// news returns which problems are to be told: those that were not since their subject was last in order. One that comes back after
// another, or after it could not be seen whether it is over, is not new. open says of which subjects that is so.
func (t told) news(all []trouble, open func(subject) bool) (fresh []Problem) {
	is := map[subject]bool{}
	for _, p := range all {
		is[p.subject()] = true
	}
	for s := range t {
		if !is[s] && !open(s) {
			delete(t, s)
		}
	}
	for _, p := range all {
		s := p.subject()
		if t[s][p.Problem] {
			continue
		}
		if t[s] == nil || len(t[s]) == maxWords {
			t[s] = map[Problem]bool{}
		}
		t[s][p.Problem] = true
		fresh = append(fresh, p.Problem)
	}
	return fresh
}
