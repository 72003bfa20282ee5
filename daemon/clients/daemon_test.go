package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	jobd "github.com/jobd/jobd/daemon"
	"github.com/jobd/jobd/daemon/config"
	"github.com/jobd/jobd/store"
)

// patience is how long a test waits for what must happen. It is no measure of speed: the machine may be busy.
const patience = 2 * time.Minute

// daemonEnv makes the test binary the daemon: it holds its configuration.
const daemonEnv = "JOBD_CLIENTS_TEST_DAEMON"

func TestMain(m *testing.M) {
	if config := os.Getenv(daemonEnv); config != "" {
		if err := serve(config); err != nil {
			fmt.Fprintln(os.Stderr, "jobd:", err)
			os.Exit(1)
		}
		return
	}
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // clients tell at length that they meet a daemon that was killed
	os.Exit(m.Run())
}

func serve(settings string) error {
	var c config.Config
	if err := json.Unmarshal([]byte(settings), &c); err != nil {
		return err
	}
	c.Version = "test"
	c.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return jobd.Run(ctx, c, func(jobd.Serving) { fmt.Println("ready") })
}

// daemon is a jobd with a root of its own.
type daemon struct {
	t       testing.TB
	dir     string
	disk    string // a file system of its root alone; empty if it has none
	process *exec.Cmd
	ended   chan struct{}
	output  *output
}

// start has prepared what is to be there before the daemon is.
func start(t testing.TB, prepare ...func(*daemon)) *daemon {
	t.Helper()
	// A socket's path must be short, which those of t.TempDir are not.
	dir, err := os.MkdirTemp("", "jobd")
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, dir: dir, output: &output{}}
	t.Cleanup(func() {
		d.stop()
		_ = os.RemoveAll(dir)
		if t.Failed() {
			t.Logf("jobd said:\n%s", d.output)
		}
	})
	for _, p := range prepare {
		p(d)
	}
	d.serve()
	return d
}

func (d *daemon) config() config.Config {
	c := config.Default()
	c.Root, c.State = filepath.Join(d.dir, "root"), filepath.Join(d.dir, "state")
	c.Runtime, c.Listen = "simulated", "127.0.0.1:0"
	c.PodBackoffBase.Duration, c.PodBackoffCap.Duration = 10*time.Millisecond, 100*time.Millisecond
	return c
}

// serve starts the process and waits until it answers.
func (d *daemon) serve() {
	d.t.Helper()
	settings, err := json.Marshal(d.config())
	if err != nil {
		d.t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		d.t.Fatal(err)
	}
	d.process = exec.Command(program)
	d.process.Env = append(os.Environ(), daemonEnv+"="+string(settings))
	ready := make(chan struct{})
	d.process.Stdout = writerFunc(func(p []byte) (int, error) { close(ready); return len(p), nil })
	d.process.Stderr = d.output
	if err := d.process.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.ended = make(chan struct{})
	go func() { defer close(d.ended); _ = d.process.Wait() }()
	select {
	case <-ready:
	case <-d.ended:
		d.t.Fatalf("jobd has ended:\n%s", d.output)
	case <-time.After(patience):
		d.t.Fatalf("jobd is not ready:\n%s", d.output)
	}
}

// kill ends the process as a crash would.
func (d *daemon) kill() {
	_ = d.process.Process.Kill()
	<-d.ended
}

func (d *daemon) stop() {
	_ = d.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.ended:
	case <-time.After(patience):
		d.t.Error("jobd did not end after SIGTERM")
		d.kill()
	}
}

// database opens what the stopped daemon has left, and finds it sound.
func (d *daemon) database() *store.Store {
	d.t.Helper()
	d.stop()
	s, err := store.Open(filepath.Join(d.dir, "root", "jobd.db"), store.Options{NoSync: true})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = s.Close() })
	if err := s.Check(); err != nil {
		d.t.Fatal(err)
	}
	return s
}

// socket is how clients on the host reach the daemon.
func (d *daemon) socket() *rest.Config {
	return &rest.Config{
		Host: "http://jobd", QPS: -1,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(d.dir, "state", "jobd.sock"))
		},
	}
}

// network is how others do. It finds the daemon also after a restart, which gives it another port.
func (d *daemon) network() *rest.Config {
	d.t.Helper()
	kubeconfig := filepath.Join(d.dir, "root", "kubeconfig")
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		d.t.Fatal(err)
	}
	config.QPS = -1
	config.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		now, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return nil, err
		}
		return (&net.Dialer{}).DialContext(ctx, network, strings.TrimPrefix(now.Host, "https://"))
	}
	return config
}

func clientset(t testing.TB, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// eventually waits until something is so.
func eventually(t testing.TB, what string, is func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = is(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not within %v: %v", what, patience, err)
}

var errNotYet = errors.New("not yet")

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// output is what the daemon says.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
