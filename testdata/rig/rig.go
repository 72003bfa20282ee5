// Package rig runs a jobd of one's own from outside, as its users see it: for the benchmarks and the soak test.
package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/testdata/images"
)

// BusyboxName is the image that everything runs.
const BusyboxName = "docker.io/library/busybox:1.36"

// Protobuf is the content type that clients of Kubernetes speak among themselves.
const Protobuf = "application/vnd.kubernetes.protobuf"

// patience is how long to wait for what must happen.
const patience = 10 * time.Minute

// Daemon is a jobd with a root and a state directory of its own.
type Daemon struct {
	Bin         string // the directory of the programs
	Root, State string
	Flags       []string  // of serve, beside those of the directories
	Log         io.Writer // of the process
	*kubernetes.Clientset

	process *exec.Cmd
	ended   chan struct{} // closed when the process has ended
}

// New makes the directories of a daemon, its root below dir. It does not start it.
func New(bin, dir string, log io.Writer, flags ...string) (d *Daemon, err error) {
	d = &Daemon{Bin: bin, Flags: flags, Log: log}
	if d.Root, err = os.MkdirTemp(dir, "root."); err != nil {
		return nil, err
	}
	if d.State, err = os.MkdirTemp(Memory(), "jobd-rig."); err != nil {
		return nil, err
	}
	for _, dir := range []string{d.Root, d.State} {
		if err := os.Chmod(dir, 0o711); err != nil { // the users of pods pass through it
			return nil, err
		}
	}
	return d, nil
}

// Memory returns a directory in memory, as /run is on hosts with systemd.
func Memory() string {
	for _, dir := range []string{"/run", "/dev/shm"} {
		var stat unix.Statfs_t
		if unix.Statfs(dir, &stat) == nil && stat.Type == unix.TMPFS_MAGIC {
			return dir
		}
	}
	return "/run"
}

// Serve starts the process, and returns the time until it answered a request.
func (d *Daemon) Serve(ctx context.Context) (time.Duration, error) {
	d.process = exec.Command(filepath.Join(d.Bin, "jobd"), append([]string{"serve", "--root", d.Root, "--state", d.State}, d.Flags...)...)
	d.process.Stdout, d.process.Stderr = d.Log, d.Log
	begin := time.Now()
	if err := d.process.Start(); err != nil {
		return 0, err
	}
	ended, process := make(chan struct{}), d.process
	d.ended = ended
	go func() {
		defer close(ended)
		_ = process.Wait()
	}()
	client, err := d.Connect(Protobuf)
	if err != nil {
		return 0, err
	}
	d.Clientset = client
	err = d.Until(ctx, "jobd answers", time.Millisecond, func() error {
		return client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	return time.Since(begin), err
}

// Until waits until is returns nil, and fails when the process has ended.
func (d *Daemon) Until(ctx context.Context, what string, pause time.Duration, is func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := is()
		if err == nil {
			return nil
		}
		select {
		case <-d.ended:
			return fmt.Errorf("%s: jobd has ended: %w", what, err)
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", what, ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

// PID is the process id of the daemon.
func (d *Daemon) PID() int { return d.process.Process.Pid }

// Socket is the path of the daemon's socket.
func (d *Daemon) Socket() string { return layout.State(d.State).Socket() }

// Dial connects to the socket, whatever the address.
func (d *Daemon) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", d.Socket())
}

// Connect returns a client that speaks one content type, as fast as it can.
func (d *Daemon) Connect(contentType string) (*kubernetes.Clientset, error) {
	return kubernetes.NewForConfig(&rest.Config{
		Host: "http://jobd", Dial: d.Dial, QPS: -1, WarningHandler: rest.NoWarnings{},
		ContentConfig: rest.ContentConfig{ContentType: contentType},
	})
}

// Get returns the body of an answer.
func (d *Daemon) Get(ctx context.Context, path string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://jobd"+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := (&http.Transport{DialContext: d.Dial, DisableKeepAlives: true}).RoundTrip(r)
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

// Jobctl runs jobctl on the daemon, and returns all that it prints.
func (d *Daemon) Jobctl(ctx context.Context, input io.Reader, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(d.Bin, "jobctl"), args...)
	cmd.Env = append(os.Environ(), "JOBD_SOCKET="+d.Socket(), "HOME="+d.State)
	cmd.Stdin = input
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("jobctl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// Busybox returns the image that everything runs, as an archive.
func Busybox() (*bytes.Buffer, error) {
	image, err := images.Busybox(BusyboxName)
	if err != nil {
		return nil, err
	}
	archive := &bytes.Buffer{}
	return archive, images.WriteDocker(archive, image)
}

// ImportBusybox gives the daemon the image that everything runs.
func (d *Daemon) ImportBusybox(ctx context.Context) error {
	archive, err := Busybox()
	if err == nil {
		_, err = d.Jobctl(ctx, archive, "image", "import", "-")
	}
	return err
}

// Shards returns the ids of the processes that hold the containers.
func (d *Daemon) Shards() (pids []int) {
	cmdlines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range cmdlines {
		cmdline, _ := os.ReadFile(path)
		if bytes.Contains(cmdline, []byte("jobd-shim")) && bytes.Contains(cmdline, []byte(d.State)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// Kill ends the process at once, and leaves the containers.
func (d *Daemon) Kill() {
	if d.process == nil || d.process.Process == nil {
		return
	}
	_ = d.process.Process.Kill()
	<-d.ended
}

// Stop ends the process as an administrator does, and leaves the containers.
func (d *Daemon) Stop() error {
	if d.process == nil || d.process.Process == nil {
		return nil
	}
	_ = d.process.Process.Signal(unix.SIGTERM)
	select {
	case <-d.ended:
		return nil
	case <-time.After(patience):
		d.Kill()
		return errors.New("jobd did not end after SIGTERM")
	}
}

// Remove ends what the daemon, which has ended, has left running, and removes all that it had.
func (d *Daemon) Remove() error {
	var failed error
	if d.process != nil {
		clean := exec.Command(filepath.Join(d.Bin, "jobd"), "clean", "--purge", "--yes", "--root", d.Root, "--state", d.State)
		if out, err := clean.CombinedOutput(); err != nil {
			failed = fmt.Errorf("jobd clean: %w: %s", err, out)
		}
	}
	return errors.Join(failed, os.RemoveAll(d.Root), os.RemoveAll(d.State))
}
