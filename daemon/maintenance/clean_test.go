package maintenance

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jobd/jobd/daemon/config"
	"github.com/jobd/jobd/daemon/lock"
	"github.com/jobd/jobd/internal/layout"
)

func TestCleanLeavesADirectoryInUseAlone(t *testing.T) {
	dir := t.TempDir()
	held, err := lock.State(layout.State(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	var inUse *lock.InUseError
	c := config.Default()
	c.Root, c.State = t.TempDir(), dir
	if err := Clean(t.Context(), c, Purge); !errors.As(err, &inUse) || inUse.Dir != dir {
		t.Errorf("clean of another root: got %v, want that %s is in use", err, dir)
	}
}

func TestCleanLeavesContainersOfAnotherRootAlone(t *testing.T) {
	state := layout.State(t.TempDir())
	if err := lock.Claim(state, "/b"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(state.Shards(), "0", "containers", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Root, c.State = "/a", string(state)
	if err := Clean(t.Context(), c, nil); err == nil {
		t.Error("clean of another root ends the containers")
	}
}

// A wrong path must do no harm, whatever it has in common with a root: /etc has hosts, and /run has containerd.
func TestCleanLeavesDirectoriesOfOthersAlone(t *testing.T) {
	for rule, test := range map[string]struct{ root, state, want string }{
		"a wrong root":  {root: "hosts passwd", state: "", want: "no root of jobd"},
		"a wrong state": {root: "jobd.db lock", state: "containerd pods systemd", want: "no state of jobd"},
	} {
		dir := t.TempDir()
		c := config.Default()
		c.Root, c.State = filepath.Join(dir, "root"), filepath.Join(dir, "state")
		var before []string
		for parent, names := range map[string]string{c.Root: test.root, c.State: test.state} {
			if err := os.Mkdir(parent, 0o755); err != nil {
				t.Fatal(err)
			}
			for name := range strings.FieldsSeq(names) {
				before = append(before, filepath.Join(parent, name))
				if err := os.WriteFile(filepath.Join(parent, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := Clean(t.Context(), c, Purge); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", rule, err, test.want)
		}
		after, err := filepath.Glob(filepath.Join(dir, "*", "*"))
		slices.Sort(before)
		if err != nil || !slices.Equal(before, after) {
			t.Errorf("%s: there is %v (%v), was %v", rule, after, err, before)
		}
	}
}

func TestFoundIsWhatJobdHasWritten(t *testing.T) {
	for rule, test := range map[string]struct {
		path string // below the directory of both
		want bool
	}{
		"no directories": {"", false}, "an empty root": {"root/", false}, "a file of others": {"root/x", false},
		"a database": {"root/jobd.db", true}, "shards": {"state/shards", true},
	} {
		dir := t.TempDir()
		c := config.Default()
		c.Root, c.State = filepath.Join(dir, "root"), filepath.Join(dir, "state")
		if err := os.MkdirAll(filepath.Join(dir, test.path), 0o755); err != nil {
			t.Fatal(err)
		}
		if found, err := Found(c); err != nil || found != test.want {
			t.Errorf("%s: got %v, %v", rule, found, err)
		}
	}
}
