package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The database is that of the daemon whose file is named; a flag wins over the file.
func TestDBReadsTheFileOfTheDaemon(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "jobd.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "root: %s/of-file\nlog-level: debug\n", dir), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"of-file": {"db", "check", "--config", file},
		"of-flag": {"db", "check", "--config", file, "--root", filepath.Join(dir, "of-flag")},
	} {
		root := newCommand()
		root.SetArgs(args)
		if err := root.Execute(); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, want, "jobd.db")) {
			t.Errorf("%v: got %v, want that %s has no database", args, err, want)
		}
	}
}
