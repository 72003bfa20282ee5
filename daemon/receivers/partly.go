package receivers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// refusal is why one of several recipients has not got a notice.
type refusal struct {
	to      string
	err     error
	forGood bool // it will not be taken later either
}

func (r refusal) String() string { return fmt.Sprintf("%s: %v", r.to, r.err) }

// partly is the error of a delivery to several recipients that is over for some of them, who are not to get it again.
type partly struct {
	over  []string  // those who have it, or never will
	never []refusal // those who never will
	later []refusal // those who may take it later; none: nothing is left to be done
}

func (p *partly) Error() string { return words(slices.Concat(p.never, p.later)) }

func words(all []refusal) string {
	said := make([]string, 0, len(all))
	for _, r := range all {
		said = append(said, r.String())
	}
	return strings.Join(said, "; ")
}

// outcome returns the error of a delivery to some of the recipients; had says that others have it by now. As long as nobody has, one
// who is refused may be mended by the administrator.
func outcome(to []string, refused []refusal, had bool) error {
	if len(refused) == 0 {
		return nil
	}
	if !had && len(refused) == len(to) {
		return errors.New(words(refused))
	}
	p := &partly{}
	for _, name := range to {
		at := slices.IndexFunc(refused, func(r refusal) bool { return r.to == name })
		switch {
		case at < 0:
			p.over = append(p.over, name)
		case refused[at].forGood:
			p.over, p.never = append(p.over, name), append(p.never, refused[at])
		default:
			p.later = append(p.later, refused[at])
		}
	}
	return p
}
