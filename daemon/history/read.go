package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/klauspost/compress/zstd"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/store"
)

// readBytes is how much is decoded for one page. It bounds how long a page takes: a search that finds little returns
// pages that are not full.
const readBytes = 4 << 20

// Query says which Jobs to find; what is zero leaves out none.
type Query struct {
	Namespace, Name, CronJob, User string
	Since                          time.Time // what has ended before is left out
	Labels                         labels.Selector
	// Pods asks for what each pod has used.
	Pods bool
	// Limit is how many Jobs a page has at most; 0 is history.MaxLimit. Continue is where the page begins: what the last
	// page said.
	Limit    int
	Continue string
}

// Read returns a page of Jobs, those that ended last first, and where the next one begins; empty if there is none.
func Read(s *store.Snapshot, q Query) (page []history.Job, next string, err error) {
	r, err := newReader(q)
	if err != nil {
		return nil, "", err
	}
	defer r.decoder.Close()
	all, err := pieces(s, Blocks)
	if err != nil {
		return nil, "", err
	}
	pending, err := pieces(s, Pending)
	if err != nil {
		return nil, "", err
	}
	for _, p := range slices.Backward(append(all, pending...)) {
		if p.first >= r.before || p.ended < r.since {
			continue
		}
		o, ok := s.Get(p.key)
		if !ok {
			return nil, "", fmt.Errorf("%s is missing", p.key)
		}
		more, err := r.piece(p, o.Value)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", p.key, err)
		}
		if !more {
			return r.page, strconv.FormatUint(r.before, 16), nil
		}
	}
	return r.page, "", nil
}

type reader struct {
	Query
	decoder *zstd.Decoder
	before  uint64 // the number that the Jobs still to be read are below
	since   int64
	// all are terms that a block has to have, and any those of which it has to have one of each list.
	all []string
	any [][]string
	// text is in each line that has something to find.
	text []byte

	page  []history.Job
	jobs  int // those of page that are no parts
	bytes int
}

func newReader(q Query) (*reader, error) {
	r := &reader{Query: q, before: ^uint64(0), since: -1 << 62}
	if q.Limit <= 0 || q.Limit > history.MaxLimit {
		r.Limit = history.MaxLimit
	}
	var err error
	if q.Continue != "" {
		if r.before, err = parseContinue(q.Continue); err != nil {
			return nil, err
		}
	}
	if !q.Since.IsZero() {
		r.since = q.Since.Unix()
	}
	if q.Namespace != "" {
		r.all = append(r.all, namespaceTerm(q.Namespace))
		if q.Name != "" {
			r.all = append(r.all, nameTerm(q.Namespace, q.Name))
		}
		if q.CronJob != "" {
			r.all = append(r.all, cronJobTerm(q.Namespace, q.CronJob))
		}
	}
	switch { // neither name has a character that JSON escapes, or it is none of a Job
	case q.Name != "":
		r.text = fmt.Appendf(nil, "%q:%q", "name", q.Name)
	case q.CronJob != "":
		r.text = fmt.Appendf(nil, "%q:%q", "cronJob", q.CronJob)
	}
	if q.User != "" {
		r.all = append(r.all, userTerm(q.User))
	}
	if q.Labels != nil {
		requirements, _ := q.Labels.Requirements()
		for _, need := range requirements {
			switch need.Operator() {
			case selection.Equals, selection.DoubleEquals, selection.In:
				var one []string
				for value := range need.Values() {
					one = append(one, labelTerm(need.Key(), value))
				}
				r.any = append(r.any, one)
			}
		}
	}
	r.decoder, err = newDecoder()
	return r, err
}

// piece reads a piece from its end, and reports whether the page goes on.
func (r *reader) piece(p piece, value []byte) (more bool, err error) {
	lines := value
	if p.isBlock() {
		b, err := openBlock(value)
		if err != nil {
			return false, err
		}
		if !r.mayHold(b) {
			return true, nil
		}
		if lines, err = r.decoder.DecodeAll(b.lines, nil); err != nil {
			return false, err
		}
	}
	split := bytes.SplitAfter(lines, []byte("\n"))
	if n := len(split); n > 0 && len(split[n-1]) == 0 {
		split = split[:n-1]
	}
	for i, line := range slices.Backward(split) {
		number := p.first + uint64(i)
		if number >= r.before {
			continue
		}
		if r.jobs == r.Limit || r.bytes > readBytes {
			return false, nil
		}
		r.before = number
		if len(r.text) > 0 && !bytes.Contains(line, r.text) {
			continue
		}
		r.bytes += len(line)
		var j history.Job
		if err := json.Unmarshal(line, &j); err != nil {
			return false, err
		}
		r.add(j)
	}
	return true, nil
}

func (p piece) isBlock() bool { return len(p.key) > len(Blocks) && p.key[:len(Blocks)+1] == Blocks+"/" }

// mayHold reports whether a block may have something to find.
func (r *reader) mayHold(b block) bool {
	for _, t := range r.all {
		if !b.has(t) {
			return false
		}
	}
	for _, some := range r.any {
		if !slices.ContainsFunc(some, b.has) {
			return false
		}
	}
	return true
}

func (r *reader) add(j history.Job) {
	switch {
	case j.Part && !r.Pods:
	case r.Namespace != "" && j.Namespace != r.Namespace:
	case r.Name != "" && j.Name != r.Name:
	case r.CronJob != "" && j.CronJob != r.CronJob:
	case r.User != "" && j.User != r.User:
	case r.Labels != nil && !r.Labels.Matches(labels.Set(j.Labels)):
	case j.Ended.Unix() < r.since && !j.Part:
	default:
		if !r.Pods {
			j.Pods = nil
		}
		if !j.Part {
			r.jobs++
		}
		r.page = append(r.page, j)
	}
}
