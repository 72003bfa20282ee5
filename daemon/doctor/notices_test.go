package doctor

import (
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jobd/jobd/api/notices"
)

// What could not be delivered is said, and nothing where there are no receivers, or no daemon.
func TestLostNotices(t *testing.T) {
	answer := `{"items": []}`
	socket := filepath.Join(t.TempDir(), "s")
	warnings := &collector{}
	p := &patient{logger: slog.New(warnings)}
	p.wanted.Socket = socket
	examine := func() (string, string) {
		t.Helper()
		text, err := lostNotices(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, w := range warnings.take() {
			said = append(said, w.text)
		}
		return text, strings.Join(said, "\n")
	}
	if text, said := examine(); text != "" || said != "" {
		t.Errorf("without a daemon: %q %q", text, said)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc(notices.Path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(answer)) })
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	if text, said := examine(); text != "" || said != "" {
		t.Errorf("without receivers: %q %q", text, said)
	}
	answer = `{"items": [{"name": "ops", "delivered": 1}]}`
	if text, said := examine(); text != "1 receivers" || said != "" {
		t.Errorf("well: %q %q", text, said)
	}
	answer = `{"items": [{"name": "ops", "lost": 2, "lostLast": "team/jobs/x", "lastError": "500\n"}, {"name": "b", "pending": 3, "lastError": "no route"},
		{"name": "c", "pending": 1, "unwritten": "no space left for the database", "lastError": "no route"}]}`
	want := "2 notices could not be delivered to ops, the last of team/jobs/x; it said: 500 \n3 notices wait for b, which said: no route\n" +
		"c is not told of 1 notices, since it cannot be written down that it was: no space left for the database"
	if _, said := examine(); said != want && said != strings.ReplaceAll(want, "500 \n", "500\n") {
		t.Errorf("%q, want %q", said, want)
	}
}
