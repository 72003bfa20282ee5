package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/jobd/jobd/runtime/containerd"
	"github.com/jobd/jobd/runtime/network"
	"github.com/jobd/jobd/store"
)

// CheckDatabase verifies the database of a root, whether its daemon runs or not.
func CheckDatabase(ctx context.Context, c Config) error {
	return withDatabase(ctx, c, func(db database) error { return db.Check(ctx) })
}

// BackupDatabase writes a copy of the database to w.
func BackupDatabase(ctx context.Context, c Config, w io.Writer) error {
	return withDatabase(ctx, c, func(db database) error { return db.Backup(ctx, w) })
}

// CompactDatabase rewrites the database without its free space and gives its sizes in bytes.
func CompactDatabase(ctx context.Context, c Config) (before, after int64, err error) {
	err = withDatabase(ctx, c, func(db database) error {
		before, after, err = db.Compact(ctx)
		return err
	})
	return before, after, err
}

// database is one that can be looked after: by opening it, or by asking the daemon that has it open.
type database interface {
	Check(context.Context) error
	Backup(context.Context, io.Writer) error
	Compact(context.Context) (before, after int64, err error)
}

type stoppedDatabase struct{ store *store.Store }

func (d stoppedDatabase) Check(context.Context) error { return d.store.Check() }

func (d stoppedDatabase) Backup(_ context.Context, w io.Writer) error {
	_, err := d.store.Backup(w)
	return err
}

func (d stoppedDatabase) Compact(ctx context.Context) (before, after int64, err error) {
	return d.store.Compact(ctx)
}

func withDatabase(ctx context.Context, c Config, do func(database) error) (err error) {
	if err := c.Complete(); err != nil {
		return err
	}
	path := c.root().Database()
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("there is no database: %w", err)
	}
	lock, err := lockRoot(c.root())
	if inUse := (*InUseError)(nil); errors.As(err, &inUse) {
		live, err := findLiveDatabase(ctx, c.Socket, path)
		if err != nil {
			return fmt.Errorf("the database is open in another jobd (pid %s), which has to be asked: %w", inUse.PID, err)
		}
		return do(live)
	} else if err != nil {
		return err
	}
	defer lock.Close()
	s, err := store.Open(path, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return do(stoppedDatabase{s})
}

// Clean ends every container of a root whose daemon does not run, and removes what they left on the host; with rootToo the
// root as well, unless it holds what is not jobd's.
func Clean(ctx context.Context, c Config, rootToo bool) error {
	if err := c.Complete(); err != nil {
		return err
	}
	for _, path := range []string{c.root().Lock(), c.state().Lock()} {
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			continue
		}
		held, err := lockFile(path)
		if err != nil {
			return err
		}
		defer held.Close()
	}
	if err := foreign(c.state(), c.root()); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("must run as root, since it ends containers")
	}
	if err := containerd.Clean(ctx, c.Root, c.State); err != nil {
		return err
	}
	if err := network.Clean(c.Root); err != nil {
		return err
	}
	if !rootToo {
		return nil
	}
	return purge(c.root())
}
