package submit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/url"
	"regexp"
	"strconv"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/cmd/internal/progress"
)

// jobLog follows the log of a Job, with the output of all its pods, which only jobd has.
type jobLog struct {
	client *Client
	job    *batchv1.Job
	out    shown
	// marks say how much of each container was shown: a stream that broke off is continued behind them.
	marks map[containerKey]mark
	// asked are further parameters of the request, and first those that only the first one has. Without them it is for all containers.
	asked, first url.Values
	// once says that it is not followed.
	once bool
}

// shown is where lines go.
type shown struct {
	chunk func(progress.Chunk)
	// flush is called before more is read: that may take until a container has written it.
	flush func()
	flow  *flow
}

// flow is how streams get on.
type flow struct {
	mu   sync.Mutex
	busy int       // streams of which something is being shown
	last time.Time // when something was shown last
}

func (f *flow) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy++
}

func (f *flow) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy--
	f.last = time.Now()
}

// idle returns for how long nothing has come.
func (f *flow) idle() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy > 0 {
		return 0
	}
	return time.Since(f.last)
}

// flushed is a stream that is read by somebody who shows everything before he waits for more.
type flushed struct {
	io.Reader
	out shown
	has bool // something of it is being shown
}

func (f *flushed) Read(b []byte) (int, error) {
	f.done()
	n, err := f.Reader.Read(b)
	f.out.flow.begin()
	f.has = true
	return n, err
}

func (f *flushed) done() {
	f.out.flush()
	if f.has {
		f.out.flow.end()
	}
	f.has = false
}

// mark is a place in a log: behind so many lines that were written at a time, all of which may have the same, or in the last of them.
type mark struct {
	at    time.Time
	lines int
	open  bool // the last line has not ended
	bytes int  // of the last line
}

// pass returns the mark behind a line that was written at a time.
func (m mark) pass(at time.Time) mark {
	if at.Equal(m.at) {
		return mark{at: at, lines: m.lines + 1}
	}
	return mark{at: at, lines: 1}
}

// wants reports whether a line, by the mark behind it, is to be shown after everything up to this mark was, and from which byte on.
func (m mark) wants(line mark) (wanted bool, from int) {
	switch {
	case line.at.After(m.at), line.at.Equal(m.at) && line.lines > m.lines:
		return true, 0
	case line.at.Equal(m.at) && line.lines == m.lines && m.open:
		return true, m.bytes
	}
	return false, 0
}

// containerKey names a container between two starts.
type containerKey struct {
	pod, container string
	restart        int
}

// errNoJobLog says that the server has no logs of Jobs.
var errNoJobLog = errors.New("the server has no logs of Jobs")

// follow shows the log until the Job has finished and everything was shown. It fails with errNoJobLog if the server
// knows nothing but the logs of pods, and continues where a connection broke off.
func (l *jobLog) follow(ctx context.Context) error {
	l.marks = map[containerKey]mark{}
	backoff := reconnect()
	for {
		err := l.stream(ctx)
		switch {
		case err == nil, ctx.Err() != nil, errors.Is(err, errNoJobLog), l.once, apierrors.IsBadRequest(err), apierrors.IsInvalid(err):
			return err
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return err
		}
		select {
		case <-time.After(backoff.Step()):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reconnect returns the pauses between attempts to reach a server.
func reconnect() wait.Backoff {
	return wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Steps: 100, Cap: 5 * time.Second, Jitter: 0.1}
}

func (l *jobLog) stream(ctx context.Context) error {
	request := l.client.Kubernetes.BatchV1().RESTClient().Get().Namespace(l.job.Namespace).Resource("jobs").
		Name(l.job.Name).SubResource("log").
		Param("follow", strconv.FormatBool(!l.once)).Param("allRestarts", "true").
		Param("prefix", "true").Param("timestamps", "true").
		Param("missing", "true")
	if l.asked.Get("container") == "" {
		request = request.Param("allContainers", "true")
	}
	resumed := maps.Clone(l.marks)
	of := []url.Values{l.asked}
	if len(resumed) == 0 {
		of = append(of, l.first)
	}
	for _, list := range of {
		for name := range list {
			request = request.Param(name, list.Get(name))
		}
	}
	if since := earliest(resumed); !since.IsZero() {
		request = request.Param("sinceTime", since.UTC().Format(time.RFC3339))
	}
	body, err := request.Stream(ctx)
	if apierrors.IsNotFound(err) {
		return errNoJobLog
	} else if err != nil {
		return err
	}
	defer body.Close()
	return readLines(body, prefixParser(), resumed, l.marks, l.out)
}

func earliest(marks map[containerKey]mark) time.Time {
	var first time.Time
	for _, m := range marks {
		if first.IsZero() || m.at.Before(first) {
			first = m.at
		}
	}
	return first
}

// readLines shows lines of any length, piece by piece. parse takes off what the server has put before a line. Lines up to
// those that resumed has for their container were shown before; marks are moved forward.
func readLines(
	r io.Reader, parse func(line []byte) progress.Chunk, resumed, marks map[containerKey]mark, out shown,
) error {
	stream := &flushed{Reader: r, out: out}
	defer stream.done()
	in := bufio.NewReaderSize(stream, 64<<10)
	behind := map[containerKey]mark{} // what was read of this stream
	var at progress.Chunk
	var here *mark // of the line, in marks; nil if nobody knows when it was written
	wanted, shown := false, 0
	for begins := true; ; {
		text, err := in.ReadSlice('\n')
		broken := err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull)
		if len(text) > 0 {
			line, ends := bytes.CutSuffix(text, []byte("\n"))
			if begins {
				at = parse(line)
				line, wanted, shown, here = at.Text, true, 0, nil
				if key := keyOf(at.Source); !at.Time.IsZero() {
					here = new(behind[key].pass(at.Time))
					behind[key] = *here
					wanted, shown = resumed[key].wants(*here)
				} else if broken {
					return err // the stream has broken off before the text of the line
				}
				at.Begins = shown == 0
			}
			if wanted {
				before := min(shown, len(line))
				shown -= before
				at.Text, at.Ends = line[before:], ends
				if ends || len(at.Text) > 0 {
					out.chunk(at)
					at.Begins = false
				}
				if here != nil {
					here.bytes, here.open = here.bytes+len(line), !ends
					marks[keyOf(at.Source)] = *here
				}
			}
			begins = ends
		}
		switch {
		case err == nil, errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return nil
		default:
			return err
		}
	}
}

func keyOf(s progress.Source) containerKey { return containerKey{s.Pod, s.Container, s.Restart} }

// missing stands in place of a stream before a line of jobd's own, which says how much of the log is missing there.
const missing = "missing"

// prefixOf is what jobd writes before a line: its source, and then when it was written.
var prefixOf = regexp.MustCompile(
	`^\[pod/([^/ ]+)/([^/ ]+)(?: index=(\d+)(?:\(((?:[^()"]|"(?:[^"\\]|\\.)*")*)\))?)?(?: attempt=(\d+))?(?: try=(\d+))?(?: restart=(\d+))?(?: (stdout|stderr|` + missing + `))?\] `,
)

// prefixParser returns parsePrefix for the lines of a stream, most of which have the prefix of the line before.
func prefixParser() func(line []byte) progress.Chunk {
	var prefix []byte
	var from progress.Source
	return func(line []byte) progress.Chunk {
		if len(prefix) > 0 && bytes.HasPrefix(line, prefix) {
			return parseTime(from, line[len(prefix):])
		}
		c := parsePrefix(line)
		from = c.Source
		prefix = append(prefix[:0], prefixOf.Find(line)...)
		return c
	}
}

// parsePrefix returns the source of a line, with the rest as its text. A line without a prefix is the rest of a very long
// one, and has no source.
func parsePrefix(line []byte) progress.Chunk {
	m := prefixOf.FindSubmatch(line)
	if m == nil {
		return progress.Chunk{Text: line}
	}
	from := progress.Source{Pod: string(m[1]), Container: string(m[2]), Values: string(m[4]), Stream: string(m[8])}
	if n, err := strconv.Atoi(string(m[3])); err == nil {
		from.Index = &n
	}
	for i, n := range []*int{&from.Attempt, &from.Try, &from.Restart} {
		*n, _ = strconv.Atoi(string(m[5+i])) // 0 of what is not there
	}
	return parseTime(from, line[len(m[0]):])
}

// podLogs follow the logs of pods, for servers that know no more.
type podLogs struct {
	ctx    context.Context
	client *Client
	out    shown

	readers sync.WaitGroup
	mu      sync.Mutex
	begun   map[logKey]bool
	stopped bool
}

type logKey struct {
	pod       types.UID
	container string
	attempt   int32
}

func newPodLogs(ctx context.Context, client *Client, out shown) *podLogs {
	return &podLogs{ctx: ctx, client: client, out: out, begun: map[logKey]bool{}}
}

// see begins to follow the containers of a pod that have begun.
func (l *podLogs) see(p *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range podspec.Statuses(p) {
		if l.stopped || c.State.Running == nil && c.State.Terminated == nil {
			continue
		}
		key := logKey{p.UID, c.Name, c.RestartCount}
		if l.begun[key] {
			continue
		}
		l.begun[key] = true
		from := progress.Source{
			Pod: p.Name, Container: c.Name, Index: progress.PodOf(p).Index, Restart: int(c.RestartCount),
		}
		namespace := p.Namespace
		l.readers.Go(func() { l.read(namespace, from) })
	}
}

// read shows the log of one container from its beginning. A log that cannot be read any more is left out.
func (l *podLogs) read(namespace string, from progress.Source) {
	marks := map[containerKey]mark{}
	parse := func(line []byte) progress.Chunk { return parseTime(from, line) }
	for backoff := reconnect(); ; {
		options := &corev1.PodLogOptions{Container: from.Container, Follow: true, Timestamps: true}
		if since := earliest(marks); !since.IsZero() {
			options.SinceTime = &metav1.Time{Time: since}
		}
		body, err := l.client.Kubernetes.CoreV1().Pods(namespace).GetLogs(from.Pod, options).Stream(l.ctx)
		if err == nil {
			err = readLines(body, parse, maps.Clone(marks), marks, l.out)
			body.Close()
		}
		if err == nil || l.ctx.Err() != nil || apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) ||
			apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			return
		}
		select {
		case <-time.After(backoff.Step()):
		case <-l.ctx.Done():
			return
		}
	}
}

// parseTime takes the time off a line of a container's log.
func parseTime(from progress.Source, line []byte) progress.Chunk {
	c := progress.Chunk{Source: from, Text: line}
	if stamp, rest, ok := bytes.Cut(line, []byte(" ")); ok {
		if t, err := time.Parse(time.RFC3339Nano, string(stamp)); err == nil {
			c.Time, c.Text = t, rest
		}
	}
	return c
}

// wait returns when all logs that were begun have ended.
func (l *podLogs) wait() {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	l.readers.Wait()
}
