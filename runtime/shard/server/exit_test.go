package server

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReleaseAtLeast(t *testing.T) {
	for release, want := range map[string]bool{
		"6.15.0": true, "6.15-rc1": true, "6.18.44-fc-v595": true, "7.0": true, "6.1.0-18-amd64": false, "5.99.1": false,
		"6.14": false, "strange": false, "": false,
	} {
		if got := releaseAtLeast(release, 6, 15); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}

func TestRuntimeWords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if got := runtimeWords(path); got != "" {
		t.Errorf("without a log: %q", got)
	}
	must(t, os.WriteFile(path, []byte(`{"level":"warning","msg":"careful"}
{"level":"error","msg":"first"}
rubbish
{"msg":"last", "level":"error", "time":"x"}
`), 0o600))
	if got := runtimeWords(path); got != "last" {
		t.Errorf("got %q", got)
	}
}
