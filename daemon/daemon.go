// Package daemon is the one process of jobd: it starts everything in order, runs the control loop, and stops it in
// reverse. Stopping is only a tidier crash: containers go on, and the next start takes them up.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/jobd/jobd/api/server"
	"github.com/jobd/jobd/api/tokens"
	"github.com/jobd/jobd/daemon/config"
	"github.com/jobd/jobd/daemon/control"
	"github.com/jobd/jobd/daemon/disk"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/host"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/joblogs"
	"github.com/jobd/jobd/daemon/lock"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/metrics"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/store"
)

// Serving is what a daemon that has become ready says of itself.
type Serving struct {
	Version     string
	After       time.Duration
	Socket      string
	Listen      string // host:port, empty without
	Kubeconfig  string
	Root, State string
	Runtime     string
	Network     string // empty without

	Jobs, UnfinishedJobs, RunningPods int
}

// Run serves until ctx ends or something fails that the daemon cannot go on without. ready is called once the API
// answers.
func Run(ctx context.Context, c config.Config, ready func(Serving)) error {
	begin := time.Now()
	if err := c.Complete(); err != nil {
		return err
	}
	// What the Kubernetes libraries have to say is about their own affairs, unless it is a warning.
	klog.SetSlogLogger(slog.New(quiet{c.Logger.With("component", "kubernetes").Handler()}))
	d, err := start(ctx, c)
	if err != nil {
		return err
	}
	defer d.stop()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		cancel(d.control.Run(ctx))
	}()
	serving := make(chan error, 1)
	go func() { serving <- d.server.Serve(ctx, d.listeners...) }()
	d.serving.After = time.Since(begin).Round(time.Millisecond)
	ready(d.serving)

	err = <-serving
	cancel(err)
	<-done
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return err
}

// daemon is what runs, and how to stop it.
type daemon struct {
	config    config.Config
	control   *control.Control
	server    *server.Server
	listeners []*server.Listener
	authority *server.Authority
	tls       netip.AddrPort // not valid where the API is not served there
	serving   Serving
	undo      []func()
}

// start brings everything up in order. What was started is stopped again when a later part fails.
func start(ctx context.Context, c config.Config) (_ *daemon, err error) {
	d := &daemon{config: c, serving: Serving{Version: c.Version, Socket: c.Socket, Root: c.Root, State: c.State}}
	defer func() {
		if err != nil {
			d.stop()
		}
	}()
	for _, step := range []func(context.Context) error{
		d.makeDirs,
		d.lock,
		d.listen, // before the rest: a socket or port that is taken is found before anything is touched
		d.open,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// stop undoes in reverse what start did.
func (d *daemon) stop() {
	for _, undo := range slices.Backward(d.undo) {
		undo()
	}
	d.undo = nil
}

func (d *daemon) onStop(undo func()) { d.undo = append(d.undo, undo) }

// closing is for what can fail when it is closed, which is worth a line and no more.
func (d *daemon) closing(what string, closer io.Closer) func() {
	return func() {
		if err := closer.Close(); err != nil {
			d.config.Logger.Warn("closing "+what, "error", err)
		}
	}
}

func (d *daemon) makeDirs(context.Context) error {
	if d.config.Runtime == "containerd" && os.Geteuid() != 0 {
		return errors.New("must run as root, since it starts containers (only --runtime simulated does without)")
	}
	for dir, mode := range map[string]os.FileMode{d.config.Root: 0o711, d.config.State: 0o711} {
		if err := os.MkdirAll(dir, mode); err != nil {
			return fmt.Errorf("cannot make the directory: %w", err)
		}
	}
	return nil
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
	socket, err := server.ListenUnix(d.config.Socket)
	if err != nil {
		return err
	}
	d.listenOn(socket)
	return d.listenTLS()
}

func (d *daemon) listenOn(l *server.Listener) {
	d.listeners = append(d.listeners, l)
	d.onStop(func() { l.Close() })
}

func (d *daemon) listenTLS() (err error) {
	c := &d.config
	if d.authority, err = server.OpenAuthority(c.RootLayout().TLS()); err != nil || c.Listen == "" {
		return err
	}
	listener, err := server.ListenTLS(c.Listen, d.authority, false)
	if err != nil {
		return err
	}
	d.listenOn(listener)
	d.tls = portOf(listener)
	d.serving.Listen = listener.Addr().String()
	d.serving.Kubeconfig = c.RootLayout().Kubeconfig()
	return d.authority.WriteKubeconfig(d.serving.Kubeconfig, listener.Addr())
}

// openPodAPI makes what pods are known by. Where they reach the API is known with their network.
func (d *daemon) openPodAPI(s *store.Store) (*podAPI, error) {
	key, err := server.OpenKey(d.config.RootLayout().ServiceAccountKey())
	if err != nil {
		return nil, err
	}
	issuer, err := tokens.New(key, s)
	return &podAPI{authority: d.authority, tokens: issuer, at: d.tls, onHost: true}, err
}

func (d *daemon) open(ctx context.Context) error {
	c := &d.config
	s, err := store.Open(c.RootLayout().Database(), store.Options{Logger: c.Logger})
	if err != nil {
		return err
	}
	d.onStop(d.closing("the database", s))
	machine, err := host.Read()
	if err != nil {
		return err
	}
	devices, err := openDevices(c)
	if err != nil {
		return err
	}
	capacity, err := host.Capacity(c.Root)
	if err != nil {
		return err
	}
	maps.Copy(capacity, devices.Capacity())
	allocatable, err := c.Resources()
	if err != nil {
		return err
	}
	if c.Runtime != "simulated" {
		allocatable = host.Allocatable(capacity, allocatable)
	} else if len(allocatable) == 0 {
		allocatable = nil // pods that are only simulated may ask for anything
	}
	imageGC, err := c.ImageGC()
	if err != nil {
		return err
	}
	thresholds, err := c.Eviction()
	if err != nil {
		return err
	}
	keptLogsSize, containerLogSize, err := c.LogSizes()
	if err != nil {
		return err
	}
	logs := joblogs.New(joblogs.Options{
		Dir: c.RootLayout().Logs(), Store: s, MaxAge: c.KeptLogsAge.Duration, MaxSize: keptLogsSize, Logger: c.Logger,
	})
	figures := metrics.New(s)
	unregister, err := figures.Register(legacyregistry.Registerer())
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	d.onStop(unregister)
	inbox := loop.NewInbox()
	api, err := d.openPodAPI(s)
	if err != nil {
		return err
	}
	containers, err := openContainers(ctx, c, machine, allocatable, devices, fileObjects{s}, api, logs)
	if err != nil {
		return err
	}
	if api.listener != nil {
		d.listenOn(api.listener)
	}
	d.onStop(d.closing("the runtime", containers.runtime))
	d.serving.Runtime = containers.runtime.Describe()
	if containers.network != nil {
		d.serving.Network = containers.network.Describe()
	}
	d.onStop(containers.names.serve(s))

	workers := containers.workers
	workers.Report, workers.LogPath, workers.BeginLogs, workers.Logger = inbox.Report, logs.Path, logs.Begin, c.Logger
	workers.LogMaxSize, workers.LogMaxFiles = containerLogSize, c.ContainerLogMaxFiles
	if c.Runtime == "simulated" {
		workers.LogPath, workers.BeginLogs = nil, nil
	}
	podWorkers := pod.NewWorkers(workers)
	d.onStop(podWorkers.Close)
	d.control = control.New(control.Config{
		Store: s, Inbox: inbox, Workers: podWorkers, Logs: logs,
		Settings: job.Settings{
			BackoffBase: c.PodBackoffBase.Duration, BackoffCap: c.PodBackoffCap.Duration, WorkloadWithJob: c.WorkloadWithJob,
		},
		MaxPods: c.MaxPods, Allocatable: node.Amounts(allocatable),
		NodeName: machine.Name, NodeIP: machine.IP, NodeLabels: machine.Labels(),
		Node: machine.Node(host.Description{
			Capacity: capacity, Allocatable: allocatable, MaxPods: c.MaxPods, Runtime: d.serving.Runtime, Version: c.Version,
		}),
		RootCA: d.authority.Certificate(),
		Epoch:  containers.epoch,
		Events: events.New(machine.Name), EventTTL: c.EventTTL.Duration, Metrics: figures, Logger: c.Logger,
	})
	if err := d.control.Recover(ctx); err != nil {
		return err
	}
	if clock, err := followClock(inbox.Nudge); err != nil {
		c.Logger.Warn("a change of the clock is noticed late", "error", err)
	} else {
		d.onStop(d.closing("the clock", clock))
	}
	d.beside(ctx, logs.Run)
	d.beside(ctx, func(ctx context.Context) { newSpareMemory().run(ctx, s) })
	if containers.images != nil {
		own := disk.NewNode(s, machine.Name, c.EventTTL.Duration, c.Logger)
		collector := disk.NewCollector(disk.CollectorOptions{
			Images: containers.images, Store: s, Policy: imageGC, Root: c.Root, Node: own, Full: containers.diskFull,
			Logger: c.Logger,
		})
		pressure := disk.NewPressure(disk.PressureOptions{
			Thresholds: thresholds, Transition: c.EvictionPressureTransitionPeriod.Duration, Root: c.Root, Node: own,
			Images: collector, Pods: containers.disk, Report: inbox.Report, Logger: c.Logger,
		})
		d.beside(ctx, collector.Run)
		d.beside(ctx, pressure.Run)
	}
	d.serving.Jobs, d.serving.UnfinishedJobs, d.serving.RunningPods = d.control.Count()

	return d.newServer(s, logs, containers, api)
}

// beside runs something beside everything else, since it may take long, until the daemon stops.
func (d *daemon) beside(ctx context.Context, run func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	d.onStop(func() { cancel(); running.Wait() })
}

func (d *daemon) newServer(s *store.Store, logs *joblogs.Logs, containers *containers, api *podAPI) error {
	c := &d.config
	options := server.Config{
		Store: s, Logger: c.Logger, Version: c.Version,
		Logs: logs, JobLogs: logs, Containers: podReach{containers.runtime}, EventTTL: c.EventTTL.Duration,
		Authority: d.authority, Tokens: api.tokens, PodAPI: api.at, WorkloadWithJob: c.WorkloadWithJob,
	}
	if containers.images != nil {
		options.Images = containers.images
	}
	var err error
	d.server, err = server.New(options)
	return err
}
