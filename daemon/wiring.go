package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/jobd/jobd/api/admit"
	"github.com/jobd/jobd/api/auditlog"
	wiregpus "github.com/jobd/jobd/api/gpus"
	"github.com/jobd/jobd/api/listen"
	"github.com/jobd/jobd/api/people"
	"github.com/jobd/jobd/api/podsecurity"
	"github.com/jobd/jobd/api/server"
	"github.com/jobd/jobd/api/shares"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/api/tokens"
	"github.com/jobd/jobd/daemon/answers"
	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/config"
	"github.com/jobd/jobd/daemon/control"
	"github.com/jobd/jobd/daemon/disk"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/fairness"
	"github.com/jobd/jobd/daemon/gpus"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/host"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/joblogs"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/memory"
	"github.com/jobd/jobd/daemon/meter"
	"github.com/jobd/jobd/daemon/metrics"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/pressure"
	"github.com/jobd/jobd/daemon/provision"
	"github.com/jobd/jobd/daemon/requests"
	"github.com/jobd/jobd/daemon/sandbox"
	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/devices"
	"github.com/jobd/jobd/runtime/logs"
	"github.com/jobd/jobd/runtime/nvidia"
	"github.com/jobd/jobd/store"
)

// databaseReserve is what the database keeps of the disk for when pods have filled it, in bytes: room for some thousand
// changes, such as the ends of all pods that run.
const databaseReserve = 16 << 20

// open makes the parts of the daemon, each from those before it, and starts those that run beside the rest.
func (d *daemon) open(ctx context.Context) error {
	c := &d.config
	s, err := store.Open(c.RootLayout().Database(), store.Options{
		Reserve: databaseReserve, Logger: c.Logger, Watch: d.sections.database, Words: storage.Words,
	})
	if err != nil {
		return err
	}
	d.onStop(d.closing("the database", s))
	if d.aside, err = aside.Open(c.RootLayout().SetAside(), c.Version); err != nil {
		c.Logger.Warn("cannot read which objects were set aside: none is", "error", err)
	}
	key, err := listen.OpenKey(c.RootLayout().ServiceAccountKey())
	if err != nil {
		return err
	}
	issuer, err := tokens.New(key, s)
	if err != nil {
		return err
	}
	inbox := loop.NewInbox()
	m, err := readMachine(c, s, inbox)
	if err != nil {
		return err
	}
	logs, err := newLogs(c, s, m.Name)
	if err != nil {
		return err
	}
	security, err := c.PodSecurityPolicy()
	if err != nil {
		return err
	}
	thresholds, err := c.Eviction()
	if err != nil {
		return err
	}
	room := &admit.DiskRoom{Store: s, Space: disk.DatabaseSpace(c.Root, s.Path(), thresholds.Disk)}
	from := sources{store: s, tokens: issuer, machine: m, logs: logs, security: security, inbox: inbox, room: room}
	if err := d.openManifests(from); err != nil {
		return err
	}
	k, err := d.openContainers(ctx, from)
	if err != nil {
		return err
	}
	if err := d.openControl(ctx, from, k); err != nil {
		return err
	}
	if clock, err := host.FollowClock(from.inbox.Nudge); err != nil {
		c.Logger.Warn("cannot follow the clock: a change of it is noticed late", "error", err)
	} else {
		d.onStop(d.closing("the clock", clock))
	}
	d.beside(logs.Run)
	d.beside(func(ctx context.Context) { newHeapTrimmer().run(ctx, s) })
	if m.gpus != nil {
		d.onStop(d.closing("the watch on GPUs", m.gpus))
		d.beside(func(ctx context.Context) { m.devices.Watch(ctx, d.control.DevicesChanged) })
	}
	if k.images != nil {
		if err := d.watchPressure(from, k); err != nil {
			return err
		}
	}
	if d.deliveries, err = d.openReceivers(from); err != nil {
		return err
	}
	d.shutdown.follow()
	return d.openServer(from, k)
}

// sources are what the larger parts of the daemon are made from.
type sources struct {
	store    *store.Store
	tokens   *tokens.Tokens
	machine  *machine
	logs     *joblogs.Logs
	security *podsecurity.Policy
	inbox    *loop.Inbox // what happens to pods is reported there
	// room is what namespaces may take of the disk, for clients and for what the control loop creates.
	room *admit.DiskRoom
}

// machine is the machine that the daemon runs on.
type machine struct {
	host.Host
	devices  *devices.Devices
	gpus     *gpus.Watcher       // nil with a simulated runtime
	capacity corev1.ResourceList // without devices, which come and go
	// allocatable is what pods may request together; nil means anything, for pods that are only simulated.
	allocatable corev1.ResourceList
	floors      floors
}

func readMachine(c *config.Config, s *store.Store, inbox *loop.Inbox) (*machine, error) {
	h, err := host.Read()
	if err != nil {
		return nil, err
	}
	given, err := openDevices(c, h, s, inbox)
	if err != nil {
		return nil, err
	}
	capacity, err := host.Capacity(c.Root)
	if err != nil {
		return nil, err
	}
	allocatable, err := c.Resources()
	if err != nil {
		return nil, err
	}
	if c.Runtime == "simulated" {
		if len(allocatable) == 0 {
			allocatable = nil
		}
		return &machine{Host: h, devices: given, capacity: capacity, allocatable: allocatable}, nil
	}
	reserved, err := c.Reserved()
	if err != nil {
		return nil, err
	}
	floors, err := newFloors(capacity, reserved)
	if err != nil {
		return nil, err
	}
	return &machine{
		Host: h, devices: given, gpus: watchGPUs(c, given), capacity: capacity, floors: floors,
		allocatable: host.Allocatable(capacity, floors.reserved, allocatable),
	}, nil
}

// openDevices finds the devices of this machine that pods may request.
func openDevices(c *config.Config, h host.Host, s *store.Store, inbox *loop.Inbox) (*devices.Devices, error) {
	if c.Runtime == "simulated" {
		return &devices.Devices{}, nil
	}
	return devices.Open(devices.Options{
		Dir: c.StateLayout().Devices(), SpecDirs: strings.Split(c.CDISpecDirs, ","),
		Missed: sandbox.MissedDevices(s, h.Name), Replicas: c.Devices.Replicas(), LookFirst: c.DevicesInUse == config.DevicesInUseWait,
		Moved: inbox.Nudge, Logger: c.Logger,
	})
}

// watchGPUs makes what sees who uses the GPUs. It does nothing as long as none are offered.
func watchGPUs(c *config.Config, given *devices.Devices) *gpus.Watcher {
	var asker *nvidia.Asker
	return gpus.New(gpus.Options{
		Devices: given, MIGMinors: "/proc/driver/nvidia-caps/mig-minors", Logger: c.Logger,
		Ask: func(ctx context.Context) (*nvidia.Report, error) { // one at a time
			path := nvidia.Find(c.NvidiaSMI)
			if path == "" {
				return nil, errors.New("there is no nvidia-smi in PATH, nor where drivers put it: name it with --nvidia-smi")
			}
			if asker == nil || asker.Path() != path {
				asker = nvidia.NewAsker(path)
			}
			return asker.Ask(ctx)
		},
		Owner: nvidia.Owners{Proc: "/proc", Parent: runtime.CgroupParent(c.Root)}.Of,
	})
}

func newLogs(c *config.Config, s *store.Store, node string) (*joblogs.Logs, error) {
	size, each, err := c.LogSizes()
	if err != nil {
		return nil, err
	}
	return joblogs.New(joblogs.Options{
		Dir: c.RootLayout().Logs(), Store: s, Node: node, MaxAge: c.KeptLogsAge.Duration, MaxSize: size, Logger: c.Logger,
		Limit: logs.Limit{MaxSize: each, MaxFiles: c.ContainerLogMaxFiles},
	}), nil
}

// openControl makes the control loop and its workers, and takes over what an earlier run has left.
func (d *daemon) openControl(ctx context.Context, from sources, k *containers) error {
	c, m := &d.config, from.machine
	sysctls, err := c.Sysctls()
	if err != nil {
		return err
	}
	kept, err := c.History()
	if err != nil {
		return err
	}
	k.workers.Panicked = func(obj *corev1.Pod, reason any) {
		d.panicked("pods", store.Key(objects.Pods, obj.Namespace, obj.Name), reason)
	}
	workers := worker.New(k.workers)
	d.workers = workers
	d.onStop("the workers of pods", workers.Close)
	volumes := provision.New(k.volumes, from.inbox.Nudge)
	d.onStop("the making of volumes", volumes.Close)
	figures := metrics.New(from.store)
	figures.ShowStuck(workers.Stuck)
	if k.kept != nil {
		figures.ShowVolumes(from.store, k.kept.Usage)
	}
	figures.ShowStates(metrics.States{
		Store: from.store, Usage: k.runtime.Usage, Aside: d.aside,
		Live: func(ctx context.Context, max int) (jobs, pods []string, err error) {
			if err := d.watchdog.Live(loopSection); err != nil { // it would not answer
				return nil, nil, err
			}
			return d.control.Live(ctx, max)
		},
	})
	figures.ShowWatchdog(d.watchdog, d.aside)
	if m.gpus != nil {
		figures.ShowGPUs(m.Name, d.gpus(m))
	}
	if d.manifests != nil {
		figures.ShowManifests(func() (objects, problems int) {
			s := d.manifests.Status()
			return s.Objects, len(s.Problems)
		})
	}
	figures.ShowAddresses(d.waiting)
	unregister, err := figures.Register(legacyregistry.Registerer())
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	d.onStop("the metrics", unregister)
	var uses control.DeviceUses // and not an interface with a nil in it
	if m.gpus != nil {
		uses = m.gpus
	}
	d.control = control.New(control.Config{
		Store: from.store, Inbox: from.inbox, Workers: workers, Logs: from.logs,
		Volumes: volumes, UnknownStorageClassWaits: c.UnknownStorageClass == config.UnknownStorageClassWait,
		Settings: job.Settings{
			BackoffBase: c.PodBackoffBase.Duration, BackoffCap: c.PodBackoffCap.Duration,
			WorkloadWithJob: c.WorkloadWithJob, TTL: c.TTL(),
		},
		PodSecurity: from.security, HostRoot: c.HostRoot, MultiKueue: c.MultiKueue, Full: from.room.Full,
		MaxPods: c.MaxPods, Allocatable: requests.Amounts(m.allocatable), StarvationAfter: c.StarvationAfter.Duration, Fair: fairShare(c),
		NodeName: m.Name, NodeIP: m.IP, NodeLabels: m.Labels(), Receivers: c.NotifyReceivers,
		Node: m.Node(host.Description{
			Capacity: m.capacity, Allocatable: m.allocatable, MaxPods: c.MaxPods, Runtime: k.runtime.Describe(),
			Handlers: k.handlers, Version: c.Version, UserNamespaces: k.userNamespaces,
		}),
		Devices: m.devices.Capacity, DeviceUses: uses,
		Sysctls: sysctls,
		RootCA:  d.authority.Certificate(),
		Tokens:  from.tokens,
		Epoch:   k.epoch,
		History: kept, Occupied: d.shutdown.note,
		Watch: d.sections.loop, Aside: d.aside, Panicked: d.panicked,
		Events: events.New(m.Name), EventTTL: c.EventTTL.Duration, Metrics: figures, Logger: c.Logger,
	})
	unstored := d.control.Unstored
	d.unstored.Store(&unstored)
	if err := d.control.Recover(ctx); err != nil {
		return err
	}
	d.serving.Jobs, d.serving.UnfinishedJobs, d.serving.RunningPods = d.control.Count()
	return nil
}

// fairShare returns how the queue is ordered by what everybody has used; nil if it is ordered by age.
func fairShare(c *config.Config) *fairness.Policy {
	if c.QueueOrder != config.QueueOrderFair {
		return nil
	}
	return &fairness.Policy{HalfLife: c.FairShareHalfLife.Duration, ByCreator: c.FairShareBy == config.FairShareByCreator}
}

// shares returns what answers what everybody has used; nil if the queue is ordered by age.
func (d *daemon) shares() func(context.Context) (*shares.List, error) {
	fair := fairShare(&d.config)
	if fair == nil {
		return nil
	}
	return func(ctx context.Context) (*shares.List, error) {
		accounts, err := d.control.Shares(ctx)
		if err != nil {
			return nil, err
		}
		list := &shares.List{
			TypeMeta: metav1.TypeMeta{APIVersion: shares.Group + "/" + shares.Version, Kind: shares.Kind},
			HalfLife: metav1.Duration{Duration: fair.HalfLife}, Items: []shares.Share{},
		}
		for _, a := range accounts {
			list.Items = append(list.Items, shares.Share{Account: a.Name, Used: a.Used, Share: a.Share, Running: a.Running, Waiting: a.Waiting})
		}
		return list, nil
	}
}

// gpus returns what answers what the GPUs do.
func (d *daemon) gpus(m *machine) func(context.Context) (*wiregpus.List, error) {
	return func(ctx context.Context) (*wiregpus.List, error) {
		return m.gpus.List(ctx, func(ctx context.Context, uids []types.UID) (map[types.UID]types.NamespacedName, error) {
			keys, err := d.control.Keys(ctx, uids)
			names := make(map[types.UID]types.NamespacedName, len(keys))
			for uid, key := range keys {
				namespace, name := objects.NameOf(key)
				names[uid] = types.NamespacedName{Namespace: namespace, Name: name}
			}
			return names, err
		})
	}
}

// watchPressure starts what removes images and evicts pods when the disk or the memory runs out.
func (d *daemon) watchPressure(from sources, k *containers) error {
	c := &d.config
	policy, err := c.ImageGC()
	if err != nil {
		return err
	}
	thresholds, err := c.Eviction()
	if err != nil {
		return err
	}
	own := pressure.NewNode(from.store, from.machine.Name, c.EventTTL.Duration, c.Logger)
	collector := disk.NewImageCollector(disk.ImageCollectorOptions{
		Images: k.images, Store: from.store, Policy: policy, Root: c.Root, Node: own, Full: k.diskFull,
		Logger: c.Logger,
	})
	watch := func(o pressure.Options) *pressure.Watch {
		o.Transition, o.Node, o.Report, o.Logger = c.EvictionPressureTransitionPeriod.Duration, own, from.inbox.Report, c.Logger
		w := pressure.New(o)
		d.beside(w.Run)
		return w
	}
	d.imageCollector = collector
	d.beside(collector.Run)
	d.pressures = map[string]*pressure.Watch{
		pressure.Disk.Taint: watch(pressure.Options{
			Name: "disk", Condition: pressure.Disk, Thresholds: thresholds.Disk,
			Resource: disk.New(disk.Options{
				Root: c.Root, Images: collector, Pods: k.usage, Store: from.store, Report: from.inbox.Report, Logger: c.Logger,
			}),
		}),
		pressure.Memory.Taint: watch(pressure.Options{
			Name: "memory", Condition: pressure.Memory, Thresholds: thresholds.Memory,
			Resource: memory.Memory{
				Runtime: k.usage.Runtime, Limit: from.machine.floors.memory, Outside: k.outside, Left: k.left, Machine: memory.ReadMachine,
			},
		}),
	}
	return nil
}

func (d *daemon) openServer(from sources, k *containers) (err error) {
	c := &d.config
	asked := d.asked(from)
	asked.Forecasts = answers.NewForecasts(from.store, d.control)
	past := &meter.Past{Machine: meter.ReadMachine, Logger: c.Logger}
	d.beside(past.Run)
	options := server.Config{
		Store: from.store, Logger: c.Logger, Version: c.Version,
		Logs: from.logs, JobLogs: from.logs, ShownLogs: from.logs, Containers: sandbox.Reach{Runtime: k.runtime, Address: k.workers.Address},
		Explainer: &answers.Explainer{Sources: asked}, Queue: d.control, Forecasts: asked.Forecasts, Shares: d.shares(),
		Pictures: answers.NewPictures(asked),
		Meter: meter.New(meter.Options{
			Containers: k.runtime, Machine: meter.ReadMachine, Node: from.machine.Name, Keys: d.control.Keys,
		}),
		Past: past, History: history.Reader{Store: from.store}, Begun: history.Begun, Receivers: d.deliveries,
		NodeName: from.machine.Name, EventTTL: c.EventTTL.Duration, PodSecurity: from.security, HostRoot: d.config.HostRoot,
		MultiKueue: c.MultiKueue,
		Authority:  d.authority, Tokens: from.tokens, PodAPI: k.api.At(), WorkloadWithJob: c.WorkloadWithJob,
		UnknownStorageClassWaits: c.UnknownStorageClass == config.UnknownStorageClassWait,
	}
	options.Inspect = (&inspector{from.store, d.control, d.workers, d.watchdog, d.manifests, d.waiting}).Inspect
	options.DiskRoom = from.room
	options.DiskUse = newDiskMeter(c, from.store, k).Measure
	if from.machine.gpus != nil {
		options.GPUs = d.gpus(from.machine)
	}
	if k.network != nil {
		options.ServiceAddresses, options.PortTaken = k.network.ServiceAddresses(), k.network.PortTaken
		options.PoliciesWithoutEffect = !k.network.Gateway().IsValid()
	}
	if options.NodePorts, err = c.NodePorts(); err != nil {
		return err
	}
	if len(c.Users) > 0 {
		options.People = people.New(c.Users)
	}
	if k.images != nil {
		options.Images = imageDoor{k.images, d.imageCollector}
	}
	if k.kept != nil {
		options.ClaimFiles = sandbox.Claims{
			Objects: sandbox.Objects{Store: from.store, Security: from.security}, Volumes: k.kept,
		}
	}
	if k.files != nil {
		options.PodFiles = k.files
	}
	if c.AuditLogPath != "" {
		if options.Audit, err = auditlog.Open(c.Audit()); err != nil {
			return err
		}
		d.onStop(d.closing("the audit log", options.Audit))
	}
	options.Live, options.Ready = map[string]func() error{}, map[string]func() error{}
	for _, name := range d.watchdog.Sections() {
		options.Live[name] = func() error { return d.watchdog.Live(name) }
		options.Ready[name] = func() error { return d.watchdog.Ready(name) }
	}
	if d.server, err = server.New(options); err != nil {
		return err
	}
	unregister, err := d.server.Register(legacyregistry.Registerer())
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	d.onStop("the metrics of the API", unregister)
	return nil
}
