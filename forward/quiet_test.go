package forward

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
)

// TestQuiet: watches of a cluster that is away say nothing, and everything else that goes wrong is said.
func TestQuiet(t *testing.T) {
	lost := func(at string) error {
		return fmt.Errorf("failed to list *v1.Job: %w", &url.Error{Op: "Get", URL: at, Err: errors.New("connection refused")})
	}
	for name, c := range map[string]struct {
		level slog.Level
		err   error
		said  bool
	}{
		"the cluster is away":             {slog.LevelError, lost("https://10.0.0.1:6443/apis/batch/v1/jobs?limit=500"), false},
		"jobd is away":                    {slog.LevelError, lost("http://jobd/apis/batch/v1/jobs?limit=500"), true},
		"a server of another port":        {slog.LevelError, lost("https://10.0.0.1:64430/apis"), true},
		"the cluster refuses":             {slog.LevelError, errors.New("jobs.batch is forbidden"), true},
		"it is about a library's affairs": {slog.LevelInfo, nil, false},
		"a warning":                       {slog.LevelWarn, nil, true},
	} {
		for _, least := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
			var out bytes.Buffer
			log := slog.New(Quiet(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: least}), "https://10.0.0.1:6443/")).With("cluster", "prod")
			log.Log(t.Context(), c.level, "Failed to watch", "err", c.err)
			said := out.String()
			if (said != "") != (c.said || least == slog.LevelDebug) || c.said == strings.Contains(said, "level=DEBUG") && said != "" {
				t.Errorf("%s, at least %s: %q", name, least, said)
			}
		}
	}
	var out bytes.Buffer
	log := slog.New(Quiet(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}), "https://10.0.0.1:6443"))
	if log.Log(t.Context(), slog.LevelDebug-4, "Response Body", "body", "secret"); out.Len() > 0 {
		t.Errorf("what is more than debugging is said: %q", out.String())
	}
}
