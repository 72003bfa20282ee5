package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestJobdDB manages the database as an administrator does, while the daemon runs and while it does not.
func TestJobdDB(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.apply(sleeper("first", 1, 0, ""))
	d.complete("first")
	// Something of each sort that clients do not see is in it.
	d.jobctl("create", "namespace", "team")
	d.jobctl("create", "namespace", "gone")
	d.jobctl("delete", "namespace", "gone")
	db := func(args ...string) (string, error) {
		return d.try("jobd", nil, append([]string{"db", "--root", d.root, "--state", d.state}, args...)...)
	}
	round := func(when string) {
		t.Helper()
		if out, err := db("check"); err != nil || strings.TrimSpace(out) != "sound" {
			t.Errorf("%s: check: %v: %s", when, err, out)
		}
		copied := filepath.Join(t.TempDir(), "copy.db")
		if out, err := db("backup", copied); err != nil || !strings.Contains(out, copied) {
			t.Errorf("%s: backup: %v: %s", when, err, out)
		}
		if info, err := os.Stat(copied); err != nil || info.Size() == 0 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: backup: %v: %v", when, info, err)
		}
		if out, err := db("backup", copied); err == nil || !strings.Contains(out, "exists") {
			t.Errorf("%s: a backup over another one: %v: %s", when, err, out)
		}
		if out, err := db("compact"); err != nil || !strings.Contains(out, "bytes, were") {
			t.Errorf("%s: compact: %v: %s", when, err, out)
		}
	}
	round("running")
	d.apply(sleeper("second", 1, 0, ""))
	d.complete("second")
	d.kill()
	round("killed")
	d.serve()
	d.complete("first")
}
