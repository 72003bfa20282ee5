package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/testdata/rig"
)

// Settings that compress a day: what a daemon keeps for an hour or up to 128 MiB is to reach its bound during the warm-up.
var settings = []string{
	"--network", "bridge",
	"--event-ttl", "30s",
	"--history-size", "512Ki",
	"--pod-backoff-base", "100ms", "--pod-backoff-cap", "1s",
}

// daemon is a jobd with a disk of its own.
type daemon struct {
	*rig.Daemon
	disk *rig.Disk
	log  *os.File
}

// startDaemon starts a jobd and imports busybox:1.36. Its root is on an ext4 with a journal, which a loop device mounts.
func startDaemon(ctx context.Context, bin, disk, log string) (_ *daemon, err error) {
	d := &daemon{}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if d.log, err = os.Create(log); err != nil {
		return nil, err
	}
	if d.disk, err = rig.NewLoop(ctx, disk); err != nil {
		return nil, err
	}
	if d.Daemon, err = rig.New(bin, d.disk.Dir, d.log, settings...); err != nil {
		return nil, err
	}
	if _, err = d.Serve(ctx); err != nil {
		return nil, err
	}
	return d, d.ImportBusybox(ctx)
}

// name returns what the daemon's cgroups, bridge and nft tables are called.
func (d *daemon) name() string {
	sum := sha256.Sum256([]byte(d.Root))
	return "jobd-" + hex.EncodeToString(sum[:4])
}

// idle waits until nothing runs, nothing is stored that will go by itself, and nothing is prepared for pods to come.
func (d *daemon) idle(ctx context.Context) error {
	return d.Until(ctx, "jobd comes to rest", 20*time.Millisecond, func() error {
		events, err := d.CoreV1().Events("").List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return err
		}
		if len(events.Items) > 0 {
			return errors.New("there are events")
		}
		prepared, err := os.ReadDir(layout.State(d.State).PreparedNetworks())
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if len(prepared) > 0 {
			return fmt.Errorf("%d networks are prepared", len(prepared))
		}
		return nil
	})
}

// profile writes what is on the heap, and all goroutines, to files whose names begin with path.
func (d *daemon) profile(ctx context.Context, path string) error {
	for query, suffix := range map[string]string{"heap?gc=1": ".pprof", "goroutine?debug=1": ".goroutines"} {
		body, err := d.Get(ctx, "/debug/pprof/"+query)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path+suffix, body, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// listFiles writes the paths of all files of the daemon to a file.
func (d *daemon) listFiles(to string) error {
	var list bytes.Buffer
	for _, dir := range []string{d.Root, d.State} {
		if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			fmt.Fprintln(&list, path)
			if errors.Is(err, fs.ErrNotExist) { // it went meanwhile
				err = nil
			}
			return err
		}); err != nil {
			return err
		}
	}
	return os.WriteFile(to, list.Bytes(), 0o644)
}

// freePages returns how much of the database is free, in MB, as a backup of it has it.
func (d *daemon) freePages(ctx context.Context) (float64, error) {
	file := d.log.Name() + ".backup.db"
	defer os.Remove(file)
	backup := exec.CommandContext(ctx, filepath.Join(d.Bin, "jobd"), "db", "backup", file, "--root", d.Root, "--state", d.State)
	if out, err := backup.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("jobd db backup: %w: %s", err, out)
	}
	db, err := bolt.Open(file, 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		return 0, err
	}
	defer db.Close()
	return mega(float64(db.Stats().FreePageN) * float64(db.Info().PageSize)), nil
}

// close ends the daemon and its containers, and removes what they had.
func (d *daemon) close() (err error) {
	if d.Daemon != nil {
		err = errors.Join(d.Stop(), d.Remove())
	}
	if d.disk != nil {
		err = errors.Join(err, d.disk.Remove())
	}
	if d.log != nil {
		err = errors.Join(err, d.log.Close())
	}
	return err
}

// logs returns what a pod has printed.
func (d *daemon) logs(ctx context.Context, namespace, pod string, options *corev1.PodLogOptions) (string, error) {
	text, err := d.CoreV1().Pods(namespace).GetLogs(pod, options).Do(ctx).Raw()
	return string(text), err
}
