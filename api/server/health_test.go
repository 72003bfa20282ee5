package server

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A check that has failed says why to administrators, and to nobody else.
func TestWhyAHealthCheckHasFailed(t *testing.T) {
	fails := map[string]func() error{"control-loop": func() error { return errors.New("a pass has been at work for 14s on default/x") }}
	ts := startServer(t, func(c *Config) { c.Live, c.Ready = fails, fails })
	const why, withheld = "[-]control-loop failed: a pass has been at work for 14s on default/x\n", "[-]control-loop failed: reason withheld\n"
	for _, path := range []string{"/livez", "/readyz", "/healthz"} {
		if code, text := ts.do(t, "GET", path, "", ""); code != 500 || !strings.Contains(text, why) {
			t.Errorf("%s says %d %s", path, code, text)
		}
		if code, text := ts.do(t, "GET", path+"?exclude=control-loop", "", ""); code != 200 || text != "ok" {
			t.Errorf("%s without the check says %d %s", path, code, text)
		}
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ts.roots}}
	defer tr.CloseIdleConnections()
	for token, want := range map[string]string{"": withheld, ts.adminToken: why} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+ts.tls.String()+"/livez", nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("it says %s, %v; want %s", text, err, want)
		}
	}
}
