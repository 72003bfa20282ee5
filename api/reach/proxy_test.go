package reach

import (
	"net/http"
	"strings"
	"testing"
)

func TestCredentialsAreNotPassedOn(t *testing.T) {
	const token = "base64url.bearer.authorization.k8s.io.c2VjcmV0"
	for _, c := range []struct {
		name  string
		given []string
		want  string
	}{
		{"Authorization", []string{"Bearer secret"}, ""},
		{"Proxy-Authorization", []string{"Basic secret"}, ""},
		{"Impersonate-User", []string{"secret"}, ""},
		{"Impersonate-Uid", []string{"secret"}, ""},
		{"Impersonate-Extra-Scopes", []string{"secret"}, ""},
		{"X-Remote-User", []string{"secret"}, ""},
		{"X-Remote-Extra-Scopes", []string{"secret"}, ""},
		{"Sec-WebSocket-Protocol", []string{token}, ""},
		{"Sec-WebSocket-Protocol", []string{token + ", chat"}, "chat"},
		{"Sec-WebSocket-Protocol", []string{"chat," + token + ",, talk"}, "chat, talk"},
		{"Sec-WebSocket-Protocol", []string{"chat", " " + strings.ToUpper(token), token + "," + token, "talk"}, "chat, talk"},
		{"sec-websocket-protocol", []string{"chat", "talk"}, "chat, talk"},
		{"Cookie", []string{"of=the pod"}, "of=the pod"},
		{"X-Mine", []string{"own"}, "own"},
	} {
		h := http.Header{}
		for _, v := range c.given {
			h.Add(c.name, v)
		}
		withoutCredentials(h)
		if got := strings.Join(h.Values(c.name), "; "); got != c.want {
			t.Errorf("%s %q: the pod gets %q, want %q", c.name, c.given, got, c.want)
		}
	}
}
