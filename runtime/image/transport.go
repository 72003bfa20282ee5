package image

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/errdefs"
	"golang.org/x/sync/semaphore"
)

// transfer is what one pull sends and receives, or what one import or another engine gives.
type transfer struct {
	name               string // of the image; of an import what it is given
	isImport           bool
	engine             string // that an image is taken from
	pushes             bool   // it sends; received is what it has sent then
	report             func(string)
	received, total    atomic.Int64
	layers, layersDone atomic.Int64

	// Of a pull.
	origin  string              // where its parts come from
	parts   *semaphore.Weighted // that are fetched
	resumed atomic.Bool         // an earlier pull has begun with some of them
	indexes atomic.Int64        // on the way to the image

	mu       sync.Mutex
	reported time.Time
	said     string   // the registry's own message about what it does not have
	refs     []string // of what is being fetched, in the content store
}

// add counts received bytes, and reports them from time to time.
func (t *transfer) add(n int) {
	received := t.received.Add(int64(n))
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); now.Sub(t.reported) >= reportEvery {
		t.reported = now
		if total := t.total.Load(); total >= received {
			t.report(fmt.Sprintf("Pulled %s of %s", megabytes(received), megabytes(total)))
		}
	}
}

// sent counts what was sent, and reports it from time to time.
func (t *transfer) sent(n int) {
	sent := t.received.Add(int64(n))
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); now.Sub(t.reported) >= reportEvery {
		t.reported = now
		t.report(fmt.Sprintf("Pushed %s of %s", megabytes(sent), megabytes(max(sent, t.total.Load()))))
	}
}

const reportEvery = 500 * time.Millisecond

// transport limits how long a registry may be silent, counts what it sends, and records why it refuses.
type transport struct {
	base     http.RoundTripper
	transfer *transfer
	to       *destinations
	stall    time.Duration
}

func (i *Images) transport(base *http.Transport, t *transfer, to *destinations) *transport {
	base.DialContext = to.dial(net.Dialer{Timeout: i.options.ConnectTimeout, KeepAlive: 30 * time.Second})
	base.Proxy = to.proxy(base.Proxy)
	base.TLSHandshakeTimeout = i.options.ConnectTimeout
	base.ResponseHeaderTimeout = i.options.AnswerTimeout
	base.MaxResponseHeaderBytes = 64 << 10 // what is held of short lines is thirty times as long
	return &transport{base: base, transfer: t, to: to, stall: i.options.StallTimeout}
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.to.check(req.URL); err != nil {
		unsent(req)
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	sent := req.WithContext(ctx)
	if req.Header.Get("Accept-Encoding") != "" { // by the fetcher, which would decode whatever comes
		sent.Header = req.Header.Clone()
		sent.Header.Set("Accept-Encoding", "identity")
	}
	resp, err := t.base.RoundTrip(sent)
	if err != nil {
		cancel(nil)
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			return nil, &silence{err}
		}
		return nil, withoutTLS(req, err)
	}
	if err := checkCoding(resp.Header); err != nil {
		resp.Body.Close()
		cancel(nil)
		return nil, err
	}
	if t.to.namerOf(hostPort(req.URL)) == byRegistry && resp.StatusCode >= 400 {
		resp.Body.Close()
		resp.Body = http.NoBody // what others say is not shown
	}
	if req.Method == http.MethodHead && resp.StatusCode == http.StatusNotFound && !t.transfer.pushes {
		t.ask(req)
	}
	most := int64(maxMetadata)
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusPartialContent {
		most = bound(req.Context())
	}
	resp.Body = &body{ReadCloser: resp.Body, transport: t, ctx: ctx, cancel: cancel, most: most, left: most, pace: newPace(t.stall),
		timer: time.AfterFunc(t.stall,
			func() { cancel(&silence{fmt.Errorf("the registry sent nothing for %s", t.stall)}) })}
	resp.Body.(*body).timer.Stop()
	return resp, nil
}

// unsent closes the body of a request that is not sent. Of a push whoever writes it would wait for ever for it to be read.
func unsent(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// checkCoding refuses what the fetcher would decode without a bound: zstd may take half a gigabyte of memory, and codings of codings
// as much as often as they are named. What is compressed once by gzip takes 32 kB, and some send it although it is not asked for.
func checkCoding(h http.Header) error {
	all := strings.Join(h.Values("Content-Encoding"), ", ")
	switch strings.ToLower(all) {
	case "", "identity", "gzip":
		return nil
	}
	return fmt.Errorf("the registry answers in a content coding that was not asked for (%.20q): %w", all, errdefs.ErrInvalidArgument)
}

// withoutTLS returns the error of a request in the form in which the resolver tries a registry on localhost again without TLS: it
// knows an answer that is no TLS only if that is well-formed HTTP, which some servers do not send to what they do not understand.
func withoutTLS(req *http.Request, err error) error {
	if e, ok := errors.AsType[tls.RecordHeaderError](err); ok && docker.IsLocalhost(req.URL.Host) {
		copy(e.RecordHeader[:], "HTTP/")
		return e
	}
	return err
}

// ask repeats a request whose answer had no body because of its method.
func (t *transport) ask(head *http.Request) {
	get := head.Clone(head.Context())
	get.Method = http.MethodGet
	resp, err := t.RoundTrip(get)
	if err != nil {
		return // the answer to the first request stands
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		raw, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		t.transfer.mu.Lock()
		defer t.transfer.mu.Unlock()
		if t.transfer.said == "" { // a digest is requested twice, first where it should be
			t.transfer.said = words(raw)
		}
	}
}

// words returns the messages in the body of a registry's error; empty if there are none.
func words(raw []byte) string {
	var answer struct {
		Errors []struct{ Code, Message string }
	}
	if json.Unmarshal(raw, &answer) != nil {
		return ""
	}
	var said []string
	for _, e := range answer.Errors {
		if e.Message == "" {
			e.Message = strings.ToLower(strings.ReplaceAll(e.Code, "_", " "))
		}
		if e.Message != "" {
			said = append(said, e.Message)
		}
	}
	return strings.Join(said, ", ")
}

// silence is the error for a registry that does not answer in time. It does not show that it is a timeout, because the
// resolver would then ask the registry four more times.
type silence struct{ cause error }

func (s *silence) Error() string { return s.cause.Error() }

type body struct {
	io.ReadCloser
	transport *transport
	ctx       context.Context
	cancel    context.CancelCauseFunc
	timer     *time.Timer
	most      int64 // bytes that it may have
	left      int64 // of them
	pace      pace
}

// Read runs the timer only while it waits for the registry, since the disk on our side may be slow.
func (b *body) Read(p []byte) (int, error) {
	b.timer.Reset(b.transport.stall)
	began := time.Now()
	n, err := b.ReadCloser.Read(p)
	waited := time.Since(began)
	b.timer.Stop()
	if !b.transport.transfer.pushes {
		b.transport.transfer.add(n)
	}
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("an answer of the registry has more than %d bytes: %w", b.most, errdefs.ErrInvalidArgument)
	}
	if slow := b.pace.add(n, waited); slow != nil && err == nil {
		return n, slow
	}
	if err != nil && err != io.EOF {
		if s, ok := errors.AsType[*silence](context.Cause(b.ctx)); ok {
			return n, s
		}
	}
	return n, err
}

func (b *body) Close() error {
	b.timer.Stop()
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}
