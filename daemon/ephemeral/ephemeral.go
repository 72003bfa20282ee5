// Package ephemeral gives `jobd run` directories of its own, and removes everything that a run leaves on the host: at its
// end, when its process is killed, and if need be at the beginning of the next run.
//
// A Place comes out: a root and a state directory that no other daemon uses, from whose names those of cgroups, bridge and
// nft tables follow. Each has a lock that its process holds for as long as it lives, so whoever finds a place without a
// living owner may clear it. It touches the directories that Dirs names, and what `jobd clean` would remove.
package ephemeral

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jobd/jobd/daemon/config"
	"github.com/jobd/jobd/daemon/lock"
	"github.com/jobd/jobd/daemon/maintenance"
	"github.com/jobd/jobd/internal/filelock"
	"github.com/jobd/jobd/internal/layout"
)

// Dirs says where places are. Zero fields have the values of DefaultDirs.
type Dirs struct {
	// States has the state directories and locks, and is lost in a reboot.
	States string
	// Roots has the roots that are removed with their runs.
	Roots string
}

// DefaultDirs are those of `jobd run`.
func DefaultDirs() Dirs { return Dirs{States: "/run/jobd-run", Roots: "/var/lib/jobd-run"} }

const lockSuffix = ".lock"

func (d Dirs) lock(id string) string        { return filepath.Join(d.States, id+lockSuffix) }
func (d Dirs) state(id string) layout.State { return layout.State(filepath.Join(d.States, id)) }
func (d Dirs) root(id string) layout.Root   { return layout.Root(filepath.Join(d.Roots, id)) }
func (d Dirs) private(root layout.Root) bool {
	return filepath.Dir(string(root)) == filepath.Clean(d.Roots)
}
func (d Dirs) make() error {
	return errors.Join(os.MkdirAll(d.States, 0o711), os.MkdirAll(d.Roots, 0o711))
}

// Place is where one run keeps its things.
type Place struct {
	Root, State string

	dirs  Dirs
	id    string
	lock  *filelock.Lock
	guard *guard
}

// Open makes a place. With a root, which may be empty, that is used and its images are kept; without one the root is
// removed with the place. The command clears places whose process has died; it is started in a small process that watches
// over this one, which shim is the program of.
func Open(dirs Dirs, root, shim string, command []string) (*Place, error) {
	if err := dirs.make(); err != nil {
		return nil, fmt.Errorf("make a place for the run: %w", err)
	}
	p := &Place{dirs: dirs}
	for p.lock == nil {
		p.id = strings.ToLower(rand.Text()[:10])
		var err error
		p.lock, err = filelock.Take(dirs.lock(p.id))
		if held := (*filelock.HeldError)(nil); err != nil && !errors.As(err, &held) { // by somebody who clears: take another
			return nil, fmt.Errorf("make a place for the run: %w", err)
		}
	}
	p.State = string(dirs.state(p.id))
	p.Root = string(dirs.root(p.id))
	if err := p.fill(root); err != nil {
		return nil, errors.Join(err, p.leave())
	}
	var err error
	if p.guard, err = startGuard(shim, command); err != nil {
		return nil, errors.Join(err, p.leave())
	}
	return p, nil
}

// fill makes the directories.
func (p *Place) fill(root string) error {
	if root != "" {
		var err error
		if p.Root, err = filepath.Abs(root); err != nil {
			return err
		}
		if err := p.dirs.adopt(layout.Root(p.Root)); err != nil {
			return err
		}
	}
	for _, dir := range []string{p.Root, p.State} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return fmt.Errorf("make a place for the run: %w", err)
		}
	}
	// Recorded at once, so that whoever clears the place knows its root.
	return lock.Claim(layout.State(p.State), layout.Root(p.Root))
}

// adopt makes a directory a root of runs, unless it is that of a daemon: what a run keeps no longer than itself, the
// database first, would be lost there.
func (d Dirs) adopt(root layout.Root) error {
	if err := os.MkdirAll(string(root), 0o711); err != nil {
		return err
	}
	if _, err := os.Stat(root.Run()); err == nil {
		return d.awaitFree(root)
	}
	entries, err := os.ReadDir(string(root))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != "lost+found" {
			return fmt.Errorf("%s is not a root of jobd run, since it has %s: choose an empty or new directory for --root", root, e.Name())
		}
	}
	return os.WriteFile(root.Run(), nil, 0o600)
}

const (
	// freeTime is how long a run waits for a root that another one has just left.
	freeTime = 5 * time.Second
	// clearTime is how long it waits until what a run has left there is cleared.
	clearTime = time.Minute
)

// awaitFree waits for a while until nobody uses a root, and until an earlier run of it, which was killed, has been cleared.
// Then the root has nothing of an earlier run.
func (d Dirs) awaitFree(root layout.Root) error {
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		held, err := lock.Root(root)
		patience := freeTime
		if err == nil {
			left := d.leftIn(root)
			if left == "" {
				return errors.Join(removeRun(root), held.Close())
			}
			if err := held.Close(); err != nil {
				return err
			}
			patience, err = clearTime, fmt.Errorf("%s is not cleared of an earlier run, %s: try: jobd run --clear", root, left)
		} else if inUse := (*lock.InUseError)(nil); !errors.As(err, &inUse) {
			return err
		}
		if time.Since(begin) > patience {
			return err
		}
	}
}

// leftIn returns the state directory of a run that has not been cleared from a root; empty if there is none.
func (d Dirs) leftIn(root layout.Root) string {
	for _, id := range d.all() {
		if owner, err := os.ReadFile(d.state(id).Owner()); err == nil && layout.Root(owner) == root {
			return string(d.state(id))
		}
	}
	return ""
}

// Settings returns the settings of a daemon with those directories changed to the place's.
func (p *Place) Settings(c config.Config) config.Config {
	c.Root, c.State, c.Socket, c.Listen = p.Root, p.State, "", ""
	c.ShutdownGracePeriod.Duration = 0 // the run ends its pods whenever it ends
	return c
}

// Close clears the place. The daemon must have stopped; containers are ended.
func (p *Place) Close(ctx context.Context, logger *slog.Logger) error {
	err := p.dirs.clear(ctx, p.id, logger)
	p.guard.end()
	return errors.Join(err, p.leave())
}

func (p *Place) leave() error {
	_ = os.Remove(p.dirs.Roots) // unless there are other runs, or one of them makes it again
	// The name is random and not used again, so that nobody who waits for the lock can take it for that of another run.
	return errors.Join(os.RemoveAll(p.dirs.lock(p.id)), p.lock.Close())
}

// clear removes all that a run has left, except for its lock, which the caller holds.
func (d Dirs) clear(ctx context.Context, id string, logger *slog.Logger) error {
	root := d.root(id)
	if owner, err := os.ReadFile(d.state(id).Owner()); err == nil && len(owner) > 0 {
		root = layout.Root(owner)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	c := config.Default()
	c.Root, c.State, c.Logger = string(root), string(d.state(id)), logger
	if d.private(root) {
		return maintenance.Clean(ctx, c, maintenance.Purge)
	}
	if _, err := os.Stat(root.Run()); err != nil {
		return fmt.Errorf("clear what a run has left: %s is not the root of a run: %w", root, err)
	}
	return maintenance.Clean(ctx, c, removeRun)
}

// removeRun removes what a root of `jobd run --root` has for one run alone.
func removeRun(root layout.Root) error {
	for _, path := range root.OfOneRun() {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("clear a run: %w", err)
		}
	}
	return nil
}

// Sweep clears the places whose processes have died.
func Sweep(ctx context.Context, dirs Dirs, logger *slog.Logger) error {
	var errs []error
	for _, id := range dirs.all() {
		held, err := filelock.Take(dirs.lock(id))
		switch other := (*filelock.HeldError)(nil); {
		case errors.As(err, &other), errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			errs = append(errs, err)
			continue
		}
		p := Place{dirs: dirs, id: id, lock: held}
		if err := dirs.clear(ctx, id, logger); err != nil {
			errs = append(errs, fmt.Errorf("what the run %s has left: %w", id, err), held.Close())
			continue
		}
		errs = append(errs, p.leave())
	}
	return errors.Join(errs...)
}

// all returns the names of all places that have left something.
func (d Dirs) all() []string {
	seen := map[string]bool{}
	var ids []string
	for _, dir := range []string{d.States, d.Roots} {
		entries, _ := os.ReadDir(dir) // one that is not there has nothing
		for _, e := range entries {
			if id := strings.TrimSuffix(e.Name(), lockSuffix); !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// guard is a process that lives until this one has died, however it did, and then clears what it has left.
type guard struct {
	cmd  *exec.Cmd
	pipe io.Closer
}

// startGuard starts it in a session of its own, so that what ends this process from a terminal leaves it alone. It notices
// the end by that of a pipe that nobody else has open.
func startGuard(shim string, command []string) (*guard, error) {
	cmd := exec.Command(shim, append([]string{"--guard"}, command...)...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the process that clears up after this one: %w", err)
	}
	return &guard{cmd, pipe}, nil
}

func (g *guard) end() {
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
	_ = g.pipe.Close()
}
