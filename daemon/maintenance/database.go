// Package maintenance does what is done to a root apart from serving it: it checks, copies and compacts the database,
// whether or not its daemon is running, and removes what a stopped daemon has left.
//
// A Config comes in, which need not be complete. What goes out is written below its root and state directories, or to a
// writer; a running daemon is asked over its socket.
package maintenance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/config"
	"github.com/jobd/jobd/daemon/lock"
	"github.com/jobd/jobd/store"
)

// Check verifies the database of a root, whether or not its daemon is running, and returns which of its objects could not be
// created as they are.
func Check(ctx context.Context, c config.Config) (refused []string, err error) {
	err = withDatabase(ctx, c, func(db database) error {
		refused, err = db.Check(ctx)
		return err
	})
	return refused, err
}

// Backup writes a copy of the database to w.
func Backup(ctx context.Context, c config.Config, w io.Writer) error {
	return withDatabase(ctx, c, func(db database) error { return db.Backup(ctx, w) })
}

// Compact rewrites the database without its free space and returns its sizes in bytes.
func Compact(ctx context.Context, c config.Config) (before, after int64, err error) {
	err = withDatabase(ctx, c, func(db database) error {
		before, after, err = db.Compact(ctx)
		return err
	})
	return before, after, err
}

// database is a database to be maintained: by opening it, or by asking the daemon that has it open.
type database interface {
	Check(context.Context) (refused []string, err error)
	Backup(context.Context, io.Writer) error
	Compact(context.Context) (before, after int64, err error)
}

type stoppedDatabase struct{ store *store.Store }

func (d stoppedDatabase) Check(ctx context.Context) (refused []string, err error) {
	if err := d.store.Check(); err != nil {
		return nil, err
	}
	return storage.Check(ctx, d.store)
}

func (d stoppedDatabase) Backup(_ context.Context, w io.Writer) error {
	_, err := d.store.Backup(w)
	return err
}

func (d stoppedDatabase) Compact(ctx context.Context) (before, after int64, err error) {
	return d.store.Compact(ctx)
}

func withDatabase(ctx context.Context, c config.Config, do func(database) error) (err error) {
	if err := c.Complete(); err != nil {
		return err
	}
	path := c.RootLayout().Database()
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("there is no database: %w", err)
	}
	held, err := lock.Root(c.RootLayout())
	if inUse := (*lock.InUseError)(nil); errors.As(err, &inUse) {
		live, err := findLiveDatabase(ctx, c.Socket, path)
		if err != nil {
			return fmt.Errorf("the database is open in another jobd (pid %s), which has to be asked: %w", inUse.PID,
				err)
		}
		return do(live)
	} else if err != nil {
		return err
	}
	defer held.Close()
	s, err := store.Open(path, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return do(stoppedDatabase{s})
}
