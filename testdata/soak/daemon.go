package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/jobd/jobd/layout"
	"github.com/jobd/jobd/testdata/images"
)

// diskSize is how large the daemon's disk may grow; the file is sparse.
const diskSize = 16 << 30

// Settings that compress a day: what a daemon keeps for an hour or up to 128 MiB is to reach its bound during the warm-up.
var settings = []string{
	"--network", "bridge",
	"--event-ttl", "30s",
	"--history-size", "512Ki",
	"--pod-backoff-base", "100ms", "--pod-backoff-cap", "1s",
}

// daemon is a jobd with a disk, a root and a state directory of its own.
type daemon struct {
	bin         string
	dir         string // holds the file of the disk, and where it is mounted
	root, state string
	log         *os.File
	process     *exec.Cmd
	ended       chan struct{} // closed when the process has ended
	http        *http.Client
	*kubernetes.Clientset
}

// startDaemon starts a jobd and imports busybox:1.36. Its root is on an ext4 with a journal, which a loop device mounts.
func startDaemon(ctx context.Context, bin, disk, log string) (_ *daemon, err error) {
	d := &daemon{bin: bin}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if d.log, err = os.Create(log); err != nil {
		return nil, err
	}
	if d.dir, err = os.MkdirTemp(disk, "jobd-soak."); err != nil {
		return nil, err
	}
	if err := os.Chmod(d.dir, 0o711); err != nil { // the users of pods pass through these
		return nil, err
	}
	file := filepath.Join(d.dir, "disk")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return nil, err
	}
	if err := os.Truncate(file, diskSize); err != nil {
		return nil, err
	}
	if err := os.Mkdir(d.mounted(), 0o711); err != nil {
		return nil, err
	}
	for _, args := range [][]string{
		{"mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard", file},
		{"mount", "-o", "loop", file, d.mounted()},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	d.root = filepath.Join(d.mounted(), "root")
	if err := os.Mkdir(d.root, 0o711); err != nil {
		return nil, err
	}
	if d.state, err = os.MkdirTemp("/run", "jobd-soak."); err != nil {
		return nil, err
	}
	if err := os.Chmod(d.state, 0o711); err != nil {
		return nil, err
	}
	if err := d.serve(ctx); err != nil {
		return nil, err
	}
	image, err := images.Busybox(busybox)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	if err := images.WriteDocker(&archive, image); err != nil {
		return nil, err
	}
	_, err = d.jobctl(ctx, &archive, "image", "import", "-")
	return d, err
}

func (d *daemon) mounted() string { return filepath.Join(d.dir, "mounted") }

// name returns what the daemon's cgroups, bridge and nft tables are called.
func (d *daemon) name() string {
	sum := sha256.Sum256([]byte(d.root))
	return "jobd-" + hex.EncodeToString(sum[:4])
}

func (d *daemon) pid() int { return d.process.Process.Pid }

func (d *daemon) serve(ctx context.Context) error {
	args := append([]string{"serve", "--root", d.root, "--state", d.state}, settings...)
	d.process = exec.Command(filepath.Join(d.bin, "jobd"), args...)
	d.process.Stdout, d.process.Stderr = d.log, d.log
	if err := d.process.Start(); err != nil {
		return err
	}
	d.ended = make(chan struct{})
	go func() {
		defer close(d.ended)
		_ = d.process.Wait()
	}()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", layout.State(d.state).Socket())
	}
	d.http = &http.Client{Transport: &http.Transport{DialContext: dial}}
	var err error
	if d.Clientset, err = kubernetes.NewForConfig(&rest.Config{
		Host: "http://jobd", Dial: dial, QPS: -1, WarningHandler: rest.NoWarnings{},
		ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"},
	}); err != nil {
		return err
	}
	return d.until(ctx, "jobd answers", func() error { return d.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() })
}

// patience is how long to wait for what must happen.
const patience = 10 * time.Minute

// until waits until is returns nil.
func (d *daemon) until(ctx context.Context, what string, is func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := is()
		if err == nil {
			return nil
		}
		select {
		case <-d.ended:
			return fmt.Errorf("jobd has ended; its log is %s", d.log.Name())
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", what, ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// idle waits until nothing runs, nothing is stored that will go by itself, and nothing is prepared for pods to come.
func (d *daemon) idle(ctx context.Context) error {
	return d.until(ctx, "jobd comes to rest", func() error {
		events, err := d.CoreV1().Events("").List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return err
		}
		if len(events.Items) > 0 {
			return errors.New("there are events")
		}
		prepared, err := os.ReadDir(layout.State(d.state).PreparedNetworks())
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if len(prepared) > 0 {
			return fmt.Errorf("%d networks are prepared", len(prepared))
		}
		return nil
	})
}

// jobctl runs jobctl on the daemon.
func (d *daemon) jobctl(ctx context.Context, input io.Reader, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "jobctl"), args...)
	cmd.Env = append(os.Environ(), "JOBD_SOCKET="+layout.State(d.state).Socket(), "HOME="+d.dir)
	cmd.Stdin = input
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("jobctl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// get returns the body of an answer.
func (d *daemon) get(ctx context.Context, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://jobd"+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := d.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, answer.Status, body)
	}
	return body, err
}

// profile writes what is on the heap, and all goroutines, to files whose names begin with path.
func (d *daemon) profile(ctx context.Context, path string) error {
	for query, suffix := range map[string]string{"heap?gc=1": ".pprof", "goroutine?debug=1": ".goroutines"} {
		body, err := d.get(ctx, "/debug/pprof/"+query)
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
	for _, dir := range []string{d.root, d.state} {
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
	file := filepath.Join(d.dir, "backup.db")
	defer os.Remove(file)
	backup := exec.CommandContext(ctx, filepath.Join(d.bin, "jobd"), "db", "backup", file, "--root", d.root, "--state", d.state)
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

// shards returns the ids of the processes that hold the containers.
func (d *daemon) shards() (pids []int) {
	cmdlines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range cmdlines {
		cmdline, _ := os.ReadFile(path)
		if bytes.Contains(cmdline, []byte("jobd-shim")) && bytes.Contains(cmdline, []byte(d.state)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// close ends the daemon and its containers, and removes what they had.
func (d *daemon) close() error {
	var failed []error
	if d.process != nil && d.process.Process != nil {
		_ = d.process.Process.Signal(unix.SIGTERM)
		select {
		case <-d.ended:
		case <-time.After(patience):
			failed = append(failed, errors.New("jobd did not end after SIGTERM"))
			_ = d.process.Process.Kill()
			<-d.ended
		}
		clean := exec.Command(filepath.Join(d.bin, "jobd"), "clean", "--purge", "--yes", "--root", d.root, "--state", d.state)
		if out, err := clean.CombinedOutput(); err != nil {
			failed = append(failed, fmt.Errorf("jobd clean: %w: %s", err, out))
		}
	}
	if d.dir != "" {
		err := unix.Unmount(d.mounted(), 0)
		if err != nil && err != unix.EINVAL && err != unix.ENOENT { // not mounted, or not even made
			failed = append(failed, fmt.Errorf("unmount %s: %w", d.mounted(), err))
		} else {
			failed = append(failed, os.RemoveAll(d.dir))
		}
	}
	if d.state != "" {
		failed = append(failed, os.RemoveAll(d.state))
	}
	if d.log != nil {
		failed = append(failed, d.log.Close())
	}
	return errors.Join(failed...)
}

// logs returns what a pod has printed.
func (d *daemon) logs(ctx context.Context, namespace, pod string, options *corev1.PodLogOptions) (string, error) {
	text, err := d.CoreV1().Pods(namespace).GetLogs(pod, options).Do(ctx).Raw()
	return string(text), err
}
