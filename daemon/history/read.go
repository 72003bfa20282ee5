package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/klauspost/compress/zstd"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	wire "github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/store"
)

// readBytes is how much is decoded for one page. It bounds how long a page takes: a search that finds little returns
// pages that are not full. Decompressing costs about an eighth of decoding.
const (
	readBytes       = 2 << 20
	decompressBytes = 8
)

// Read returns a page of Jobs, those that ended last first, and where the next one begins; empty if there is none.
func Read(s *store.Snapshot, q wire.Query) (page []wire.Job, next string, err error) {
	r, err := newReader(q)
	if err != nil {
		return nil, "", err
	}
	defer r.decoder.Close()
	all, err := pieces(s, blocks)
	if err != nil {
		return nil, "", err
	}
	pending, err := pieces(s, pending)
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
	wire.Query
	decoder *zstd.Decoder
	before  uint64 // the number that the Jobs still to be read are below
	since   int64
	// all are terms that a block has to contain; any are lists of terms, and it has to contain at least one of each list.
	all []string
	any [][]string
	// text is in each line that has something to find.
	text [][]byte

	page  []wire.Job
	jobs  int // those of page that are no parts
	bytes int
}

func newReader(q wire.Query) (*reader, error) {
	r := &reader{Query: q, before: ^uint64(0), since: -1 << 62}
	if q.Limit <= 0 || q.Limit > wire.MaxLimit {
		r.Limit = wire.MaxLimit
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
	if !q.Within.Began.IsZero() {
		r.since = max(r.since, q.Within.Began.Unix())
	}
	if q.Namespace != "" {
		r.all = append(r.all, namespaceTerm(q.Namespace))
		if q.Name != "" {
			r.all = append(r.all, nameTerm(q.Namespace, q.Name))
		}
		if q.GenerateName != "" {
			r.all = append(r.all, generateNameTerm(q.Namespace, q.GenerateName))
		}
		if q.CronJob != "" {
			r.all = append(r.all, cronJobTerm(q.Namespace, q.CronJob))
		}
		if q.JobSet != "" {
			r.all = append(r.all, jobSetTerm(q.Namespace, q.JobSet))
		}
	}
	if q.JobSet != "" {
		r.text = append(r.text, fmt.Appendf(nil, "%q:%q", "kind", wire.KindJobSet))
	}
	for field, value := range map[string]string{"name": cmp.Or(q.Name, q.JobSet), "generateName": q.GenerateName, "cronJob": q.CronJob, "user": q.User} {
		if value == "" {
			continue
		}
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		r.text = append(r.text, fmt.Appendf(nil, "%q:%s", field, text))
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
	lines, err := r.lines(p, value)
	if err != nil {
		return false, err
	}
	if p.isBlock() {
		r.bytes += len(lines) / decompressBytes
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
		if slices.ContainsFunc(r.text, func(text []byte) bool { return !bytes.Contains(line, text) }) {
			continue
		}
		j, err := decodeLine(line, r.Pods)
		if err != nil || j.UID == "" {
			continue // see decodeLines
		}
		r.bytes += len(line)
		if pods := bytes.IndexByte(line, '\t'); !r.Pods {
			r.bytes -= len(line) - pods
		}
		r.add(j)
	}
	return true, nil
}

// lines returns the lines of a piece, none if there is nothing to find among them.
func (r *reader) lines(p piece, value []byte) ([]byte, error) {
	if !p.isBlock() {
		return value, nil
	}
	b, err := openBlock(value)
	if err != nil || !r.mayHold(b) {
		return nil, err
	}
	return r.decoder.DecodeAll(b.lines, nil)
}

func (p piece) isBlock() bool { return len(p.key) > len(blocks) && p.key[:len(blocks)+1] == blocks+"/" }

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

func (r *reader) add(j wire.Job) {
	switch {
	case j.Part && !r.Pods:
	case (r.JobSet != "") != (j.Kind == wire.KindJobSet):
	case r.JobSet != "" && j.Name != r.JobSet:
	case r.Namespace != "" && j.Namespace != r.Namespace:
	case r.Name != "" && j.Name != r.Name:
	case r.GenerateName != "" && j.GenerateName != r.GenerateName:
	case r.CronJob != "" && j.CronJob != r.CronJob:
	case r.User != "" && j.User != r.User:
	case r.Labels != nil && !r.Labels.Matches(labels.Set(j.Labels)):
	case !r.Within.Has(&j):
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

// Reader reads the history in a store. It implements server.History.
type Reader struct{ Store *store.Store }

// Read returns an answer.
func (r Reader) Read(q wire.Query) (*wire.List, error) {
	list := &wire.List{Items: []wire.Job{}}
	list.APIVersion, list.Kind = wire.Group+"/"+wire.Version, wire.Kind
	err := r.Store.View(func(s *store.Snapshot) error {
		page, next, err := Read(s, q)
		list.Items, list.Metadata.Continue = append(list.Items, page...), next
		return err
	})
	return list, err
}

// Pods calls do with the pods of a Job that are in the history and whose numbers are not below from, in the order of
// their ends. It returns the number at which the next call is to go on: what has ended by then is added behind it.
func Pods(s *store.Snapshot, namespace, name, uid string, from uint64, do func(*wire.Pod)) (next uint64, err error) {
	r, err := newReader(wire.Query{Namespace: namespace, Name: name, Pods: true})
	if err != nil {
		return from, err
	}
	defer r.decoder.Close()
	all, err := pieces(s, blocks)
	if err != nil {
		return from, err
	}
	pending, err := pieces(s, pending)
	if err != nil {
		return from, err
	}
	own := fmt.Appendf(nil, "%q:%q", "uid", uid)
	next = from
	for _, p := range append(all, pending...) {
		if p.first+p.jobs <= from {
			continue
		}
		next = p.first + p.jobs
		o, ok := s.Get(p.key)
		if !ok {
			return from, fmt.Errorf("%s is missing", p.key)
		}
		lines, err := r.lines(p, o.Value)
		if err != nil {
			return from, fmt.Errorf("%s: %w", p.key, err)
		}
		number := p.first
		for line := range bytes.Lines(lines) {
			number++
			if number <= from || !bytes.Contains(line, own) {
				continue
			}
			j, err := decodeLine(line, true)
			if err != nil || j.UID != uid {
				continue // see decodeLines
			}
			for i := range j.Pods {
				do(&j.Pods[i])
			}
		}
	}
	return next, nil
}

// Size returns how much the history takes, in bytes as stored.
func Size(s *store.Snapshot) (bytes int64, err error) {
	for _, resource := range []string{blocks, pending} {
		all, err := pieces(s, resource)
		if err != nil {
			return 0, err
		}
		bytes += size(all)
	}
	return bytes, nil
}
