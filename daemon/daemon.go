// Package daemon is the one process of jobd: it starts everything in order, runs the control loop, and stops everything
// in reverse order. A stop is only a tidier crash: containers keep running, and the next start takes them over.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/jobd/jobd/api/listen"
	"github.com/jobd/jobd/api/server"
	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/config"
	"github.com/jobd/jobd/daemon/control"
	"github.com/jobd/jobd/daemon/disk"
	"github.com/jobd/jobd/daemon/host"
	"github.com/jobd/jobd/daemon/lock"
	"github.com/jobd/jobd/daemon/manifests"
	"github.com/jobd/jobd/daemon/pressure"
	"github.com/jobd/jobd/daemon/receivers"
	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/internal/watchdog"
)

// Serving describes a daemon that has become ready.
type Serving struct {
	Version     string
	After       time.Duration
	Socket      string
	UsersSocket string // empty if there is none
	Listen      string // host:port; empty if there is none
	ListenWaits bool   // another process has that port, and it is tried again
	Kubeconfig  string
	Root, State string
	Runtime     string
	Network     string // empty if there is none

	Jobs, UnfinishedJobs, RunningPods int
}

// Run serves until ctx ends, or until something fails that the daemon cannot do without. It calls ready once the API
// answers.
func Run(ctx context.Context, c config.Config, ready func(Serving)) error {
	begin := time.Now()
	if err := c.Complete(); err != nil {
		return err
	}
	// What the Kubernetes libraries log is about their own affairs, unless it is a warning.
	klog.SetSlogLogger(slog.New(quiet{c.Logger.With("component", "kubernetes").Handler()}))
	d := newDaemon(c)
	defer d.watch()()
	told := ctx // to stop
	ctx, cancel := d.shutdown.untilTold(told)
	defer cancel(nil)
	defer d.boundStop(ctx)()
	if err := d.start(ctx); err != nil {
		return err
	}
	defer context.AfterFunc(told, func() { c.Logger.Info("stopping, since jobd was told to") })()
	defer func() {
		if told.Err() != nil {
			c.Logger.Info("stopped in good order", "uptime", time.Since(begin).Round(time.Second))
		}
	}()
	defer d.stop()

	done := make(chan struct{})
	go func() {
		defer close(done)
		cancel(d.control.Run(ctx))
	}()
	serving := make(chan error, 1)
	go func() { serving <- d.server.Serve(ctx, d.listeners...) }()
	defer d.applyManifests(ctx)()
	d.shutdown.serves.Store(d.control)
	d.serving.After = time.Since(begin).Round(time.Millisecond)
	ready(d.serving)

	d.waitsFor("the requests that are being served")
	err := <-serving
	cancel(err)
	d.waitsFor("the control loop")
	<-done
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return err
}

// daemon is what runs, and how it is stopped.
type daemon struct {
	config     config.Config
	control    *control.Control
	workers    *worker.Pool
	server     *server.Server
	listeners  []*listen.Listener
	authority  *listen.Authority
	tls        netip.AddrPort // not valid if the API is not served there
	serving    Serving
	undo       []part
	watchdog   *watchdog.Watchdog
	sections   sections
	aside      *aside.List
	unstored   atomic.Pointer[func(key string) bool] // of the control loop, once there is one
	ending     atomic.Pointer[string]                // what the end of the daemon waits for
	deliveries *receivers.Deliveries
	shutdown   *shutdown
	manifests  *manifests.Applier // nil: there is no directory of them
	// imageCollector and pressures, by their taints, are nil unless pods are containers.
	imageCollector *disk.ImageCollector
	pressures      map[string]*pressure.Watch
}

// part is a part of the daemon that is stopped.
type part struct {
	name string
	undo func()
}

func newDaemon(c config.Config) *daemon {
	d := &daemon{config: c, serving: Serving{Version: c.Version, Socket: c.Socket, Root: c.Root, State: c.State}}
	d.shutdown = newShutdown(d)
	d.waitsFor("the start")
	return d
}

// start starts everything in order. If a part fails, what was started before it is stopped again.
func (d *daemon) start(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			d.stop()
		}
	}()
	for _, step := range []func(context.Context) error{
		d.makeDirs,
		d.lock,
		d.listen, // before the rest: a socket or port that is taken is found before anything is changed
		d.open,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stop undoes what start did, in reverse order.
func (d *daemon) stop() {
	for _, p := range slices.Backward(d.undo) {
		d.waitsFor(p.name)
		p.undo()
	}
	d.undo = nil
}

// onStop notes how a part is stopped.
func (d *daemon) onStop(name string, undo func()) { d.undo = append(d.undo, part{name, undo}) }

// closing returns the arguments of onStop for something that is closed. The error is logged, if there is one.
func (d *daemon) closing(what string, closer io.Closer) (name string, undo func()) {
	return what, func() {
		if err := closer.Close(); err != nil {
			d.config.Logger.Warn("cannot close a part of the daemon", "part", what, "error", err)
		}
	}
}

// beside runs a function beside everything else until the daemon stops.
func (d *daemon) beside(run func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	d.onStop(nameOf(run), func() { cancel(); running.Wait() })
}

// run does the same for a function that may fail. The error is logged with its name, and the daemon goes on without it.
func (d *daemon) run(name string, run func(context.Context) error) {
	d.beside(func(ctx context.Context) {
		if err := run(ctx); err != nil && ctx.Err() == nil {
			d.config.Logger.Warn("a part of the daemon has ended early", "part", name, "error", err)
		}
	})
}

func (d *daemon) makeDirs(context.Context) error {
	if d.config.Runtime == "containerd" {
		if err := host.Needs(); err != nil {
			return err
		}
	}
	for dir, mode := range map[string]os.FileMode{d.config.Root: 0o711, d.config.State: 0o711} {
		if err := os.MkdirAll(dir, mode); err != nil {
			return fmt.Errorf("cannot make the directory: %w", err)
		}
	}
	return makeLogs(layout.Root(d.config.Root).Logs())
}

func (d *daemon) lock(context.Context) error {
	root, err := lock.Root(d.config.RootLayout())
	if err != nil {
		return err
	}
	d.onStop(d.closing("the lock of the root", root))
	state, err := lock.State(d.config.StateLayout())
	if err != nil {
		return err
	}
	d.onStop(d.closing("the lock of the state directory", state))
	return lock.Claim(d.config.StateLayout(), d.config.RootLayout())
}

func (d *daemon) listen(context.Context) error {
	socket, err := listen.Unix(d.config.Socket, d.config.SocketGroup)
	if err != nil {
		return err
	}
	d.listenOn(socket)
	if len(d.config.Users) > 0 {
		users, err := listen.Users(d.config.UsersSocket)
		if err != nil {
			return err
		}
		d.listenOn(users)
		d.serving.UsersSocket = d.config.UsersSocket
	}
	if c := &d.config; c.MultiKueueListen != "" {
		if !c.MultiKueue {
			return errors.New("multikueue-listen has no effect without multikueue: set both, or neither")
		}
		managers, err := listen.ForManagers(c.MultiKueueListen, c.MultiKueueCertFile, c.MultiKueueKeyFile)
		if err != nil {
			return err
		}
		d.listenOn(managers)
	}
	return d.listenTLS()
}

func (d *daemon) listenOn(l *listen.Listener) {
	d.listeners = append(d.listeners, l)
	d.onStop("a listener", func() { l.Close() })
	if why := l.Waits(); why != nil {
		d.config.Logger.Warn("cannot listen on an address yet: all else is served, and it is tried again", "error", why)
		d.beside(func(ctx context.Context) {
			select {
			case <-ctx.Done():
			case <-l.Opened():
				d.config.Logger.Info("listening on the address that another process had", "address", l.Addr())
			}
		})
	}
}

// waiting returns why the API is not served yet on some of its addresses.
func (d *daemon) waiting() (why []error) {
	for _, l := range d.listeners {
		if err := l.Waits(); err != nil {
			why = append(why, err)
		}
	}
	return why
}

func (d *daemon) listenTLS() (err error) {
	c := &d.config
	if d.authority, err = listen.OpenAuthority(c.RootLayout().TLS()); err != nil || c.Listen == "" {
		return err
	}
	listener, err := listen.TLS(c.Listen, d.authority, false)
	if err != nil {
		return err
	}
	d.listenOn(listener)
	d.tls = netip.MustParseAddrPort(listener.Addr().String())
	d.serving.Listen, d.serving.ListenWaits = listener.Addr().String(), listener.Waits() != nil
	d.serving.Kubeconfig = c.RootLayout().Kubeconfig()
	return d.authority.WriteKubeconfig(d.serving.Kubeconfig, listener.Addr())
}

// makeLogs ensures that only root can list the directory of all logs, where the names are those of pods, even if an
// older jobd has created it.
func makeLogs(dir string) error {
	if err := errors.Join(os.MkdirAll(dir, 0o711), os.Chmod(dir, 0o711)); err != nil {
		return fmt.Errorf("cannot make the directory of the logs: %w", err)
	}
	return nil
}
