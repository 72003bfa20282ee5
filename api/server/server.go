// Package server serves jobd's API: the REST handlers of k8s.io/apiserver over the store, on a unix socket and on
// TLS.
//
// Whoever can open the socket may do everything: its file mode is the permission, and the peer's uid is logged with
// every write. A second one is open to all users of the machine, of whom each may do what roles and bindings allow. On TLS
// a client certificate or a bearer token is needed for everything except /livez, /readyz and /version.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/jobd/jobd/api/absent"
	"github.com/jobd/jobd/api/admit"
	"github.com/jobd/jobd/api/auditlog"
	"github.com/jobd/jobd/api/authorization"
	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/conns"
	"github.com/jobd/jobd/api/creation"
	"github.com/jobd/jobd/api/database"
	"github.com/jobd/jobd/api/diskuse"
	"github.com/jobd/jobd/api/flowcontrol"
	"github.com/jobd/jobd/api/forecast"
	"github.com/jobd/jobd/api/gpus"
	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/inspection"
	"github.com/jobd/jobd/api/kind"
	"github.com/jobd/jobd/api/kueue"
	"github.com/jobd/jobd/api/listen"
	"github.com/jobd/jobd/api/people"
	"github.com/jobd/jobd/api/podsecurity"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/reach"
	"github.com/jobd/jobd/api/resourcemetrics"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/shares"
	"github.com/jobd/jobd/api/tokens"
	"github.com/jobd/jobd/api/transfer"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/internal/fairshare"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/store"
)

// Config holds what a Server needs. Store is required, everything else has a default.
type Config struct {
	Store  *store.Store
	Logger *slog.Logger
	// Version is jobd's own, reported by /version beside the version of the API.
	Version string

	// NodeName is the name of this machine.
	NodeName string

	// Logs and Images answer what only the daemon knows. Without one its requests are refused.
	Logs       Logs
	JobLogs    JobLogs
	ShownLogs  ShownLogs
	Images     Images
	Containers reach.Containers
	ClaimFiles transfer.ClaimFiles
	Explainer  Explainer
	// Inspect says what the daemon is doing; nil: nobody can ask.
	Inspect func(context.Context) *inspection.Daemon
	// DiskUse says what is on the disk; nil: nobody can ask.
	DiskUse  func(context.Context) (*diskuse.Report, error)
	Pictures Pictures
	Queue    Queue
	// Shares returns what everybody has used; nil if the queue is not ordered by that.
	Shares func(context.Context) (*shares.List, error)
	// GPUs returns what the GPUs do, with all that use them; nil: nobody knows.
	GPUs func(context.Context) (*gpus.List, error)
	// Forecasts may be nil.
	Forecasts Forecasts
	Meter     resourcemetrics.Meter
	Past      Past
	History   History
	// Begun reports whether a pod of a Job was ever bound; nil: nobody knows.
	Begun func(*store.Snapshot, *batchv1.Job) (bool, error)
	// Receivers are whom users may let be told of their Jobs; nil: nobody knows.
	Receivers Receivers
	// PodFiles finds the files that pods have left; nil: there are none.
	PodFiles transfer.PodFiles

	// DiskRoom bounds what namespaces have in the database; nil: nothing does.
	DiskRoom *admit.DiskRoom

	// Authority authenticates clients of listeners made by listen.TLS; nil if there are none.
	Authority *listen.Authority
	// Tokens issues and verifies the tokens of ServiceAccounts; nil if there are none.
	Tokens *tokens.Tokens
	// PodAPI is the address at which pods reach the API; the zero value if they cannot.
	PodAPI netip.AddrPort
	// PoliciesWithoutEffect says that pods have no network that NetworkPolicies could apply to, of which their writers are
	// warned.
	PoliciesWithoutEffect bool
	// ServiceAddresses is the range of the virtual addresses of Services; not valid if they have none. NodePorts is that
	// of their ports of the host; by default 30000-32767.
	ServiceAddresses netip.Prefix
	NodePorts        utilnet.PortRange
	// PortTaken fails if a port of the host is not to be had for a Service; nil: all are.
	PortTaken func(protocol corev1.Protocol, port uint16) error
	// People are the users of this machine, whom listeners made by listen.Users let in; nil if there are none.
	People *people.People
	// Authorizer is asked about requests that the roles do not cover.
	Authorizer authorizer.UnconditionalAuthorizer

	// UnknownStorageClassWaits says that claims of a storage class that does not exist wait for it; otherwise they get
	// volumes of the default class. Here it only decides what clients are warned of.
	UnknownStorageClassWaits bool

	// Audit records the requests that its policy names; nil if there is no audit log.
	Audit *auditlog.Log

	// Ready is asked by /readyz, by name: an error says what is not ready. Live is asked by /livez and /healthz.
	Ready, Live map[string]func() error

	// EventTTL is how long events are kept after they were last written. Default one hour.
	EventTTL time.Duration
	// PodSecurity decides which pods a namespace allows. Default: as its labels say, and any without a label.
	PodSecurity *podsecurity.Policy
	// HostRoot lets root run commands of this machine by the image jobd.dev/host.
	HostRoot bool
	// MultiKueue lets managers of MultiKueue hand out Jobs to this machine: their Workloads are served, and the kinds that they look for.
	MultiKueue bool
	// WorkloadWithJob makes gangs of Jobs that are Indexed and run all their indexes at a time.
	WorkloadWithJob bool

	// RequestTimeout ends requests that neither watch nor follow. Default one minute.
	RequestTimeout time.Duration
	// MaxStreams bounds how many watches and logs are served at a time, on each listener. One user may have half of them.
	// Default 5000.
	MaxStreams int

	bodyPause time.Duration // flowcontrol.BodyPause, but for tests
}

// Logs opens what containers wrote.
type Logs interface {
	// Open returns the log of one container, already cut to what the options ask for; opts.Container is set. With
	// opts.Follow the reader ends when the container does or ctx is done.
	Open(ctx context.Context, pod *corev1.Pod, opts *corev1.PodLogOptions) (io.ReadCloser, error)
}

// ShownLogs keeps the logs of pods that show one of a cluster.
type ShownLogs interface {
	// Keep takes in lines of a container of a pod that shows one of a cluster, after those that are there, and returns where the log ends.
	// Without lines it only says that.
	Keep(pod *corev1.Pod, container string, attempt int, after clusters.LogEnd, lines []byte) (clusters.LogEnd, error)
}

// JobLogs opens what the containers of a Job's pods wrote, also of those that are gone.
type JobLogs interface {
	// OpenJob returns the logs one after the other, already cut to what the options ask for. With opts.Follow those
	// that are being written come line by line, and the reader ends when the Job has finished, is gone, or ctx is done.
	OpenJob(ctx context.Context, job *batchv1.Job, opts *batch.JobLogOptions) (io.ReadCloser, error)
	// Left returns what is known of the last Job of a name that is gone and whose logs are kept (batch.KeepLogsAnnotation): its name, its
	// UID and the names of its containers; nil if there is none.
	Left(ctx context.Context, namespace, name string) (*batchv1.Job, error)
	// Elsewhere returns the name of another node that pods of the Job are for, whose logs are there; empty if there are none.
	Elsewhere(job *batchv1.Job) (node string, err error)
}

// Explainer says why an object is in the state that it is in.
type Explainer interface {
	// Explain explains a Job, pod or CronJob, or that there is no Job of a name of which a success is expected. What the client may not
	// read is left out: may reports whether it may read a resource, or a part of it such as "pods/log", in a namespace. An object that
	// is gone is an error of the API.
	Explain(ctx context.Context, object why.Reference, may func(resource, namespace string) bool) (*why.Explanation, error)
}

// Queue is the queue in which pods wait for room.
type Queue interface {
	// Places returns the place in the queue, from 1, of the first waiting pod of each Job, by the Job's UID.
	Places(ctx context.Context) (map[types.UID]int, error)
	// Groups returns the concurrency groups in which Jobs wait for a place, by the UIDs of those that do.
	Groups(ctx context.Context, jobs []types.UID) (map[types.UID]string, error)
}

// Forecasts say when Jobs are expected to start and to end.
type Forecasts interface {
	// Forecasts returns what is expected of Jobs that have not ended, by their UIDs.
	Forecasts(ctx context.Context, jobs []*batchv1.Job) (map[types.UID]*forecast.Forecast, error)
}

// History is what is kept of Jobs that have ended.
type History interface {
	Read(history.Query) (*history.List, error)
}

// Images manages the images that pods can be started from.
type Images interface {
	Import(ctx context.Context, archive io.Reader, name string) ([]runtime.Image, error)
	Pull(ctx context.Context, ref string, progress func(string)) (runtime.Image, error)
	List(ctx context.Context) ([]runtime.Image, error)
	Remove(ctx context.Context, ref string) error
	// Push sends an image to the registry of another name, perhaps with credentials of the client.
	Push(ctx context.Context, ref, to string, with *runtime.Credentials, progress func(string)) (runtime.Image, error)
	Tag(ctx context.Context, ref, to string) (runtime.Image, error)
	// Prune removes images that nothing needs, or says which those are.
	Prune(ctx context.Context, all, dryRun bool) (runtime.Pruned, error)
	// Transfers returns how far the pulls and imports are that are under way.
	Transfers() []runtime.Transfer
}

// Server answers the API. It is made by New.
type Server struct {
	config    Config
	addresses *serviceAddresses
	rights    *namespaceRoom // for Roles and RoleBindings
	groups    *groups
	admits    admission.Interface       // decides about writes
	paths     *mux.PathRecorderMux      // what is not below a group
	access    *authorization.Authorizer // who may do what
	panics    *panics
	patches   *fairshare.Places               // turns of those that are costly
	kinds     map[schema.GroupResource]string // the names of the kinds

	// The same API for the socket, for the network, which trusts nobody, and for pods, of which only ServiceAccounts are
	// known.
	local, remote, pods *entrance
	managers            *entrance // the same as for pods, for managers of MultiKueue
	users               *entrance // the same for the users of this machine; nil if none of them is let in
	// at is the address at which the network can reach the API, once it is served there.
	at atomic.Pointer[net.Addr]
	// stopping ends long requests, such as watches, when Serve is about to return.
	stopping context.Context
	stop     context.CancelFunc
}

// New makes a server and the namespaces that every cluster has. Nothing is served yet.
func New(c Config) (*Server, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = time.Minute
	}
	if c.MaxStreams == 0 {
		c.MaxStreams = flowcontrol.DefaultMaxStreams
	}
	if c.bodyPause == 0 {
		c.bodyPause = flowcontrol.BodyPause
	}
	if c.EventTTL == 0 {
		c.EventTTL = time.Hour
	}
	if c.PodSecurity == nil {
		var err error
		if c.PodSecurity, err = podsecurity.New(podsecurity.Configuration{}); err != nil {
			return nil, err
		}
	}
	if c.NodePorts.Size == 0 {
		c.NodePorts = utilnet.PortRange{Base: 30000, Size: 2768}
	}
	s := &Server{
		config: c, access: authorization.New(c.Store, c.Authorizer), panics: newPanics(c.Logger), patches: fairshare.New(costlyPatches),
	}
	s.rights = s.newRightsRoom()
	var err error
	if s.addresses, err = newServiceAddresses(&c); err != nil {
		return nil, fmt.Errorf("addresses of Services: %w", err)
	}
	s.stopping, s.stop = context.WithCancel(context.Background())

	limitCopies()
	s.admits = s.admission()
	s.groups = newGroups()
	if err := s.add(scheme.Kinds()); err != nil {
		return nil, fmt.Errorf("set up the API: %w", err)
	}
	if err := s.access.Ready(); err != nil {
		return nil, fmt.Errorf("set up the API: %w", err)
	}
	v2, v3 := openAPI()
	// Half of the time goes into what no route needs before it is called.
	var beside errgroup.Group
	types := &fieldTypes{}
	beside.Go(func() error { return s.groups.learnTypes(types, v3) })
	beside.Go(func() error {
		return errors.Join(s.createNamespaces(), s.createRoles(), s.createPriorityClasses(), s.createStorageClass(), s.showKubernetesService())
	})
	err = s.groups.install(types, s.admits, authorizer.AuthorizerFunc(s.access.Authorize))
	if err = errors.Join(err, beside.Wait()); err != nil {
		return nil, fmt.Errorf("set up the API: %w", err)
	}
	s.servePaths()
	if err := s.serveIssuer(); err != nil {
		return nil, fmt.Errorf("set up the API: %w", err)
	}
	s.serveOpenAPI(v2, v3)
	s.serveHistory()
	s.serveShares()
	s.serveGPUs()

	all := refuseAbsent(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.groups.handles(r.URL.Path) {
			s.groups.ServeHTTP(w, r)
		} else {
			s.paths.ServeHTTP(w, r)
		}
	}))
	s.local = s.entrance("socket", s.localRoutes(all), s.identifyPeer)
	s.remote = s.entrance("network", all, s.authenticate(s.everybody()...))
	s.pods = s.entrance("pods", all, s.authenticate(s.accounts()...))
	s.managers = s.entrance("managers", all, s.authenticate(s.accounts()...))
	if c.People != nil {
		s.users = s.entrance("users", s.userRoutes(all), s.identifyUser)
	}
	return s, nil
}

// admission returns what decides about writes, in order. What decides about new objects whoever creates them is in package
// creation.
func (s *Server) admission() admission.Interface {
	c := &s.config
	room := c.DiskRoom
	if room == nil {
		room = &admit.DiskRoom{} // without bounds
	}
	all := []admission.Interface{
		admit.Creation{Store: c.Store, Rules: creation.First()},
		admit.NamespaceLifecycle{},
		room,
		admit.LimitRanges{Store: c.Store},
		admit.PriorityClasses{Store: c.Store},
		resizeAdmission{c.Store},
		admit.TemplateReferences{Store: c.Store},
		admit.ManualSelectors{Store: c.Store},
		admit.After{Store: c.Store},
		admit.Forwarded{Store: c.Store},
		admit.Shown{Access: s.access},
		admit.IndexEnv{Store: c.Store},
		admit.Controllers{Store: c.Store},
		admit.AccountRole{Store: c.Store, Access: s.access},
		admit.Prioritize{Store: c.Store},
		admit.Apart{Access: s.access},
		admit.RunAs{Store: c.Store},
		admit.HostImage{Store: c.Store, Root: c.HostRoot},
		s.podSecurity(),
		privilegedServices{s},
		admit.ClaimClass{Store: c.Store, StandIn: !c.UnknownStorageClassWaits},
		admit.Escalation{Access: s.access},
		admit.Creation{Store: c.Store, Rules: creation.Rules(c.PodSecurity, c.HostRoot)},
		admit.ResourceQuotas{Store: c.Store},
	}
	if c.WorkloadWithJob {
		all = append(all, admit.Gangs{})
	}
	return admission.NewChainHandler(all...)
}

func (s *Server) podSecurity() admit.PodSecurity {
	return admit.PodSecurity{Store: s.config.Store, Access: s.access, Policy: s.config.PodSecurity, HostRoot: s.config.HostRoot}
}

// reaches refuses pods that the client of a request may not reach into, or that are not on this machine.
func (s *Server) reaches(ctx context.Context, pod *corev1.Pod) error {
	if err := s.podSecurity().Reaches(ctx, pod); err != nil {
		return err
	}
	switch {
	case clusters.Shown(pod):
		return apierrors.NewBadRequest(fmt.Sprintf("pod %q runs in the cluster %q, where it has the same name: it can be reached only there, "+
			"with a kubeconfig of that cluster", pod.Name, pod.Spec.NodeName))
	case podspec.Elsewhere(pod, s.config.NodeName):
		return apierrors.NewBadRequest(fmt.Sprintf("pod %q is on the node %q, and this machine is %q: it can be reached only there",
			pod.Name, pod.Spec.NodeName, s.config.NodeName))
	}
	return nil
}

// limitCopies bounds what the copies of a JSON patch may add to an object.
var limitCopies = sync.OnceFunc(func() { jsonpatch.AccumulatedCopySizeLimit = maxBodyBytes })

// add serves every kind under each of its groups.
func (s *Server) add(kinds []*kind.Kind) error {
	add := func(gv schema.GroupVersion, served map[string]rest.Storage) {
		for _, name := range slices.Sorted(maps.Keys(served)) {
			s.groups.add(gv, name, served[name])
			whole, _, _ := strings.Cut(name, "/")
			s.access.Serve(gv.WithResource(name).GroupResource(), served[whole], served[name])
		}
	}
	s.kinds = map[schema.GroupResource]string{}
	shown := absent.Kinds
	if s.config.MultiKueue {
		shown = slices.Concat(absent.Kinds, absent.Integrations)
	}
	for _, k := range kinds {
		if k.GroupVersion == kueue.GroupVersion && !s.config.MultiKueue {
			continue
		}
		s.kinds[k.GroupResource()] = k.Name
		served, err := s.resources(k)
		if err != nil {
			return fmt.Errorf("%s: %w", k.GroupResource(), err)
		}
		add(k.GroupVersion, served)
		for _, alias := range k.AlsoIn {
			s.kinds[alias.GroupVersion.WithResource(k.Resource).GroupResource()] = k.Name
			add(alias.GroupVersion, served)
		}
	}
	for _, k := range shown {
		add(k.GroupVersion(), map[string]rest.Storage{k.Resource(): newNothing(k, s.config.Store)})
	}
	pods, nodes := resourcemetrics.New(s.config.Meter, s.config.Store)
	add(v1beta1.SchemeGroupVersion, map[string]rest.Storage{"pods": pods, "nodes": nodes})
	add(authenticationv1.SchemeGroupVersion,
		map[string]rest.Storage{
			"selfsubjectreviews": authorization.WhoAmI(), "tokenreviews": authorization.WhoseToken(s.bearers()),
		})
	add(authorizationv1.SchemeGroupVersion,
		map[string]rest.Storage{
			"selfsubjectaccessreviews": s.access.MayI(), "selfsubjectrulesreviews": s.access.WhatMayI(),
			"subjectaccessreviews": s.access.MaySomebody(), "localsubjectaccessreviews": s.access.MaySomebodyHere(),
		})
	return nil
}

// Local answers as the socket does, to a program that has the server in its own process.
func (s *Server) Local() http.Handler { return s.local.handler }

// Serve answers on all listeners until ctx is done or one of them fails. Then it waits a little for requests to
// end, and returns nil when ctx was the cause.
func (s *Server) Serve(ctx context.Context, listeners ...*listen.Listener) error {
	defer s.stop()

	failed := make(chan error, len(listeners))
	servers := make([]*http.Server, len(listeners))
	for i, l := range listeners {
		servers[i] = s.httpServer(l)
		go func() { failed <- l.Serve(servers[i], s.entranceOf(l).connections) }()
	}
	var err error
	running := len(listeners)
	select {
	case <-ctx.Done():
	case err = <-failed:
		running--
	}
	s.stop()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	for _, server := range servers {
		if server.Shutdown(drain) != nil {
			_ = server.Close() // what is still running has used up its time
		}
	}
	for range running {
		<-failed
	}
	return err
}

// drainTimeout is how long requests may take to end when the server stops.
const drainTimeout = 5 * time.Second

// entrance is the API as one listener serves it: behind a chain of filters, with places and connections of its own, so
// that clients of one listener take nothing from those of another.
type entrance struct {
	name        string // as the metrics have it
	handler     http.Handler
	shares      *flowcontrol.Shares
	connections *conns.Table
}

func (s *Server) entrance(name string, api http.Handler, access access) *entrance {
	shares := flowcontrol.NewShares(s.config.MaxStreams, longRunning, s.config.RequestTimeout)
	handler := s.chain(api, access, shares)
	if name != "pods" && name != "managers" {
		handler = withDashboard(handler)
	}
	handler = flowcontrol.BoundStreams(s.panics.answer(handler), s.config.RequestTimeout)
	return &entrance{name, handler, shares, conns.New(conns.MaxIdle)}
}

func (s *Server) entranceOf(l *listen.Listener) *entrance {
	switch {
	case l.ForPods():
		return s.pods
	case l.ForManagers():
		return s.managers
	case l.ForUsers():
		return s.users
	case l.TLS() != nil:
		return s.remote
	}
	return s.local
}

func (s *Server) httpServer(l *listen.Listener) *http.Server {
	if l.TLS() != nil && !l.ForPods() && !l.ForManagers() {
		at := l.Addr()
		s.at.Store(&at)
	}
	return &http.Server{
		Handler:   s.entranceOf(l).handler,
		TLSConfig: l.TLS(),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return conns.WithConn(conns.WithPeer(ctx, c), c)
		},
		ReadHeaderTimeout: 10 * time.Second,
		MaxHeaderBytes:    flowcontrol.MaxHeaderBytes,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(s.config.Logger.Handler(), slog.LevelDebug),
	}
}

// longRunning reports whether a request lasts as long as the client wants.
func longRunning(r *http.Request, info *request.RequestInfo) bool {
	return isImagePath(r.URL.Path) || isProfilePath(r.URL.Path) || r.URL.Path == database.Path || r.URL.Path == diskuse.Path || watching(r, info)
}

var watching = genericfilters.BasicLongRunningRequestCheck(sets.NewString("watch"),
	sets.NewString("log", "exec", "attach", "portforward", "proxy", "files"))

// noAddresses makes clients stay on the address that they have found.
type noAddresses struct{}

func (noAddresses) ServerAddressByClientCIDRs(net.IP) []metav1.ServerAddressByClientCIDR {
	return []metav1.ServerAddressByClientCIDR{}
}
