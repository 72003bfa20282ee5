package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/events"
	"github.com/containerd/containerd/v2/core/metadata"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/plugin"
	"github.com/containerd/plugin/registry"
	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/files"
)

// containerd's database is opened here and not by its own plugin, so that no container has to wait for the disk.
func init() {
	registry.Register(&plugin.Registration{
		Type:     plugins.MetadataPlugin,
		ID:       "bolt",
		Requires: []plugin.Type{plugins.ContentPlugin, plugins.EventPlugin, plugins.SnapshotPlugin},
		InitFn: func(ic *plugin.InitContext) (any, error) {
			e, err := host(ic)
			if err != nil {
				return nil, err
			}
			store, err := ic.GetSingle(plugins.ContentPlugin)
			if err != nil {
				return nil, err
			}
			publisher, err := ic.GetSingle(plugins.EventPlugin)
			if err != nil {
				return nil, err
			}
			loaded, err := ic.GetByType(plugins.SnapshotPlugin)
			if err != nil {
				return nil, err
			}
			snapshotters := map[string]snapshots.Snapshotter{}
			for name, one := range loaded {
				snapshotters[name] = one.(snapshots.Snapshotter)
			}
			e.database, err = openDatabase(e.databaseDir, e.epoch,
				filepath.Join(ic.Properties[plugins.PropertyRootDir], "meta.db"))
			if err != nil {
				return nil, err
			}
			ic.Meta.Exports["path"] = e.database.Path()
			db := metadata.NewDB(e.database, store.(content.Store), snapshotters,
				metadata.WithEventsPublisher(publisher.(events.Publisher)))
			return db, db.Init(ic.Context)
		},
	})
}

// database is containerd's database. Nearly all changes are about containers, which do not outlive this boot of the
// host, so it is in the state directory and none of its commits waits for the disk. When anything else has changed,
// images or their layers, it is copied to the root before the change is confirmed. A new life of the state directory
// begins with the copy.
type database struct {
	*bbolt.DB
	saved string // the copy
	// begun is the file's final name. It is set until the file has that name, which is once the containers that the
	// copy lists have been dropped.
	begun string
	// volatile is set by a transaction that concerns containers only. There is one transaction at a time.
	volatile bool

	mu     sync.Mutex
	copied int // the last transaction in the copy
}

const unfinished = "~new"

func openDatabase(dir, epoch, saved string) (*database, error) {
	if err := os.MkdirAll(filepath.Dir(saved), 0o711); err != nil {
		return nil, fmt.Errorf("database of containerd: %w", err)
	}
	d := &database{saved: saved}
	path := filepath.Join(dir, "meta-"+epoch+".db")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := removeEarlierLives(dir, epoch); err != nil {
			return nil, fmt.Errorf("database of containerd: %w", err)
		}
		d.begun, path = path, path+unfinished
		content, err := os.ReadFile(saved)
		if err == nil {
			err = os.WriteFile(path, content, 0o600)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("database of containerd: %w", err)
		}
	} else if err != nil {
		return nil, fmt.Errorf("database of containerd: %w", err)
	}
	options := *bbolt.DefaultOptions
	options.NoSync, options.NoGrowSync, options.NoFreelistSync = true, true, true
	options.FreelistType, options.NoStatistics = bbolt.FreelistMapType, true
	var err error
	if d.DB, err = bbolt.Open(path, 0o600, &options); err != nil {
		return nil, fmt.Errorf("database of containerd: %w", err)
	}
	return d, nil
}

// removeEarlierLives removes the databases of earlier lives of the state directory, and their links to layers.
func removeEarlierLives(dir, epoch string) error {
	old, err := filepath.Glob(filepath.Join(dir, "meta-*.db*"))
	links, _ := filepath.Glob(linksDir(dir, "*"))
	for _, path := range append(old, links...) {
		if path != linksDir(dir, epoch) {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	return err
}

// linksDir returns the directory that records which container has which recycled layer, in one life of the state
// directory.
func linksDir(dir, epoch string) string { return filepath.Join(dir, "layers-"+epoch) }

// isCopy reports whether the database has just been made from the copy and settle has not been called yet.
func (d *database) isCopy() bool { return d.begun != "" }

// settle renames a database that was made from the copy to the name by which it is found.
func (d *database) settle() error {
	if d.begun == "" {
		return nil
	}
	if err := os.Rename(d.begun+unfinished, d.begun); err != nil {
		return fmt.Errorf("database of containerd: %w", err)
	}
	d.begun = ""
	return nil
}

// Update returns once the changes are durable, unless they are about containers only: those do not wait for the disk.
func (d *database) Update(fn func(*bbolt.Tx) error) error {
	number, volatile := 0, false
	err := d.DB.Update(func(tx *bbolt.Tx) error {
		d.volatile = false
		err := fn(tx)
		number, volatile = tx.ID(), d.volatile
		return err
	})
	if err != nil || volatile {
		return err
	}
	return d.save(number)
}

// catchUp copies what an earlier process had committed but not yet copied. From then on, copied is known.
func (d *database) catchUp() error { return d.save(math.MaxInt) }

// save copies the database to the root, unless a copy that includes this transaction was made in the meantime.
func (d *database) save(number int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if number <= d.copied {
		return nil
	}
	err := d.View(func(tx *bbolt.Tx) error {
		number = tx.ID()
		// The copy before the last is overwritten: it reserves the space without which nothing could be removed from a
		// full disk.
		fresh := d.saved + unfinished
		f, err := os.OpenFile(fresh, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		size, err := tx.WriteTo(f)
		if err == nil {
			err = f.Truncate(size)
		}
		if err == nil {
			err = f.Sync()
		}
		if err != nil {
			return err
		}
		err = unix.Renameat2(unix.AT_FDCWD, fresh, unix.AT_FDCWD, d.saved, unix.RENAME_EXCHANGE)
		if err != nil { // it is the first copy, or the file system cannot do this
			err = os.Rename(fresh, d.saved)
		}
		return err
	})
	if err == nil {
		err = files.SyncDirectory(filepath.Dir(d.saved))
	}
	if err != nil {
		return fmt.Errorf("copy the database of containerd: %w", err)
	}
	d.copied = number
	return nil
}

// updateVolatile is metadata's Update for changes that are about containers only.
func (e *embedded) updateVolatile(fn func(*bbolt.Tx) error) error {
	return e.db.Update(func(tx *bbolt.Tx) error {
		e.database.volatile = true
		return fn(tx)
	})
}

// forget drops the containers that the copy of the database lists: they ended with an earlier life of the state
// directory.
func (r *Runtime) forget(ctx context.Context) error {
	if r.server.database.isCopy() {
		store, snapshotter := r.server.containers(), r.server.snapshots()
		err := r.server.commits.run(ctx, func(ctx context.Context) error {
			objects, err := store.List(ctx)
			if err != nil {
				return err
			}
			for _, object := range objects {
				if object.Runtime.Name != runtimeName {
					continue
				}
				if err := deleteContainer(ctx, store, snapshotter, object.ID); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("forget containers of an earlier run: %w", err)
		}
	}
	return r.server.database.settle()
}
