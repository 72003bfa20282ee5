package receivers

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/notify"
)

// maxAnswer is how much of an answer is read: enough to say what was wrong.
const maxAnswer = 4 << 10

// newClient returns a client that follows no redirects: the administrator has said where notices go.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second,
			ForceAttemptHTTP2:   true,
			MaxIdleConns:        1, IdleConnTimeout: 30 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// webhook sends notices by HTTP.
type webhook struct {
	*notify.Webhook
	host   string
	client *http.Client
}

func (w *webhook) send(ctx context.Context, n *notify.Pending) error {
	address, err := addressOf(w.URL, w.URLFile, notify.CheckURL)
	if err != nil {
		return err
	}
	body, contentType, err := n.Body(w.Webhook, w.host)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return withoutURL(err)
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("User-Agent", "jobd")
	request.Header.Set("Idempotency-Key", n.ID)
	for name, value := range w.Headers {
		request.Header.Set(name, value)
	}
	if w.SecretFile != "" {
		secret, err := readSecret(w.SecretFile)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+secret)
	}
	err = call(w.client, request)
	var answer *refusedCall
	if errors.As(err, &answer) && answer.status == http.StatusGone {
		// As CloudEvents' rules for webhooks have it. Any other answer may be that of something in front of the receiver, such as the 404 of
		// a proxy while its service is restarted, and late is better than never.
		return &forGood{fmt.Errorf("the receiver says that it is retired: give it another URL, or take it out of the settings (%w)", err)}
	}
	return err
}

// healthcheck pings a service.
type healthcheck struct {
	*notify.Receiver
	client *http.Client
}

func (h *healthcheck) send(ctx context.Context, n *notify.Pending) error {
	address, err := addressOf(h.Healthcheck.URL, h.Healthcheck.URLFile, h.CheckPings)
	if err != nil {
		return err
	}
	if n.Kind == notices.Test {
		return withoutURL(reach(ctx, address))
	}
	if address, err = n.Ping(address); err != nil {
		return withoutURL(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(n.Said()))
	if err != nil {
		return withoutURL(err)
	}
	request.Header.Set("Content-Type", "text/plain; charset=utf-8")
	request.Header.Set("User-Agent", "jobd")
	err = call(h.client, request)
	var answer *refusedCall
	if errors.As(err, &answer) {
		switch answer.status {
		case http.StatusNotFound, http.StatusGone:
			return &forGood{fmt.Errorf("there is no such check: make it there, or, for healthchecks.io, add ?create=1 to the URL (%w)", err)}
		case http.StatusConflict:
			return &forGood{fmt.Errorf("several checks have that name there: rename one (%w)", err)}
		}
	}
	return err
}

// reach connects to the service, and asks for nothing: any request, whatever its method, may count as a ping that says success.
func reach(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, strings.NewReplacer("{", "", "}", "").Replace(address), nil)
	if err != nil {
		return err
	}
	to, proxy := request.URL, false
	if through, err := http.ProxyFromEnvironment(request); err != nil {
		return err
	} else if through != nil {
		to, proxy = through, true
	}
	port := to.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[to.Scheme]
	}
	at := net.JoinHostPort(to.Hostname(), port)
	if to.Scheme != "https" || proxy {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	conn, err := (&tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12}}).DialContext(ctx, "tcp", at)
	if err != nil {
		return err
	}
	return conn.Close()
}

// forGood is the error of a delivery that is not tried again: it would hold up nothing but itself, and never succeed.
type forGood struct{ error }

func (e *forGood) Unwrap() error { return e.error }

// refusedCall is the error of a request that was answered otherwise than by a success.
type refusedCall struct {
	status int
	text   string
	wait   time.Duration // for how long it asks to be left alone; 0: it does not
}

func (e *refusedCall) Error() string { return e.text }

// call sends a request. Any answer but a success is an error.
func call(client *http.Client, request *http.Request) error {
	response, err := client.Do(request)
	if err != nil {
		return withoutURL(err)
	}
	defer response.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer)) // the status is what counts
	if response.StatusCode/100 != 2 {
		wait := retryAfter(response.Header, time.Now())
		text := fmt.Sprintf("%s: %s", response.Status, oneLine(said))
		if wait > 0 {
			text += fmt.Sprintf(" (Retry-After: %v)", wait.Round(time.Second))
		}
		return &refusedCall{response.StatusCode, text, wait}
	}
	return nil
}

// retryAfter returns for how long an answer asks to be left alone, in seconds or until a date (RFC 9110, 10.2.3); 0 if it does not, or
// not in words that can be read.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return podspec.Seconds(int64(min(seconds, math.MaxInt64)))
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if sent, err := http.ParseTime(h.Get("Date")); err == nil {
		now = sent // by its own clock
	}
	return max(0, until.Sub(now))
}

// withoutURL returns an error without the address, which may be a secret.
func withoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// addressOf returns the address in a setting, which was checked when that was read, or in its file.
func addressOf(text, file string, check func(string) error) (string, error) {
	if file == "" {
		return text, nil
	}
	address, err := readSecret(file)
	if err != nil {
		return "", err
	}
	if err := check(address); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return address, nil
}

// readSecret reads a file with one line, each time anew, so that it can be changed.
func readSecret(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxAnswer))
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" || strings.ContainsAny(secret, "\r\n") {
		return "", fmt.Errorf("%s: must have one line", path)
	}
	return secret, nil
}
