// Package server serves jobd's API: the REST handlers of k8s.io/apiserver over the store, on a unix socket and on
// TLS.
//
// Whoever can open the socket may do everything: its file mode is the permission, and the peer's uid is logged with
// every write. On TLS a client certificate or a bearer token is needed for everything except /livez, /readyz and
// /version.
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
	rbacv1 "k8s.io/api/rbac/v1"
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
	"github.com/jobd/jobd/api/auditlog"
	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/database"
	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/kind"
	"github.com/jobd/jobd/api/podsecurity"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/tokens"
	"github.com/jobd/jobd/api/why"
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
	Images     Images
	Containers Containers
	ClaimFiles ClaimFiles
	Explainer  Explainer
	Pictures   Pictures
	Queue      Queue
	Meter      Meter
	Past       Past
	History    History
	// PodFiles finds the files that pods have left; nil: there are none.
	PodFiles PodFiles

	// Authority authenticates clients of listeners made by ListenTLS; nil if there are none.
	Authority *Authority
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
	// WorkloadWithJob makes gangs of Jobs that are Indexed and run all their indexes at a time.
	WorkloadWithJob bool

	// RequestTimeout ends requests that neither watch nor follow. Default one minute.
	RequestTimeout time.Duration
	// MaxStreams bounds how many watches and logs are served at a time, on each listener. One user may have half of them.
	// Default 5000.
	MaxStreams int

	bodyPause time.Duration // see there
}

// Logs opens what containers wrote.
type Logs interface {
	// Open returns the log of one container, already cut to what the options ask for; opts.Container is set. With
	// opts.Follow the reader ends when the container does or ctx is done.
	Open(ctx context.Context, pod *corev1.Pod, opts *corev1.PodLogOptions) (io.ReadCloser, error)
}

// JobLogs opens what the containers of a Job's pods wrote, also of those that are gone.
type JobLogs interface {
	// OpenJob returns the logs one after the other, already cut to what the options ask for. With opts.Follow those
	// that are being written come line by line, and the reader ends when the Job has finished, is gone, or ctx is done.
	OpenJob(ctx context.Context, job *batchv1.Job, opts *batch.JobLogOptions) (io.ReadCloser, error)
}

// Explainer says why an object is in the state that it is in.
type Explainer interface {
	// Explain explains a Job, pod or CronJob. What the client may not read is left out: may reports whether it may read
	// a resource, or a part of it such as "pods/log", in a namespace. An object that is gone is an error of the API.
	Explain(ctx context.Context, object why.Reference, may func(resource, namespace string) bool) (*why.Explanation, error)
}

// Queue is the queue in which pods wait for room.
type Queue interface {
	// Places returns the place in the queue, from 1, of the first waiting pod of each Job, by the Job's UID.
	Places(ctx context.Context) (map[types.UID]int, error)
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
	// Transfers returns how far the pulls and imports are that are under way.
	Transfers() []runtime.Transfer
}

// Server answers the API. It is made by New.
type Server struct {
	config    Config
	addresses *serviceAddresses
	groups    *groups
	paths     *mux.PathRecorderMux // what is not below a group
	// endpoints lists all that is served, in order.
	endpoints []endpoint
	// rights are what roles and bindings allow; roleRules are the rules that stand for jobd's own roles, by their names.
	rights    *rights
	panics    *panics
	kinds     map[schema.GroupResource]string // the names of the kinds
	roleRules map[string][]rbacv1.PolicyRule

	// The same API for the socket, for the network, which trusts nobody, and for pods, of which only ServiceAccounts are
	// known.
	local, remote, pods *front
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
		c.MaxStreams = defaultMaxStreams
	}
	if c.bodyPause == 0 {
		c.bodyPause = bodyPause
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
	s := &Server{config: c, rights: &rights{store: c.Store}, panics: newPanics(c.Logger)}
	var err error
	if s.addresses, err = newServiceAddresses(&c); err != nil {
		return nil, fmt.Errorf("addresses of Services: %w", err)
	}
	s.stopping, s.stop = context.WithCancel(context.Background())

	limitCopies()
	s.groups = newGroups()
	if err := s.add(scheme.Kinds()); err != nil {
		return nil, fmt.Errorf("set up the API: %w", err)
	}
	if s.roleRules, err = rulesOfRoles(s.endpoints); err != nil {
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
	err = s.groups.install(types, s.admission(), authorizer.AuthorizerFunc(s.authorize))
	if err = errors.Join(err, beside.Wait()); err != nil {
		return nil, fmt.Errorf("set up the API: %w", err)
	}
	s.servePaths()
	if err := s.serveIssuer(); err != nil {
		return nil, fmt.Errorf("set up the API: %w", err)
	}
	s.serveOpenAPI(v2, v3)
	s.serveHistory()

	all := refuseAbsent(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.groups.handles(r.URL.Path) {
			s.groups.ServeHTTP(w, r)
		} else {
			s.paths.ServeHTTP(w, r)
		}
	}))
	s.local = s.front("socket", s.localRoutes(all), s.identifyPeer)
	s.remote = s.front("network", all, s.authenticate(s.everybody()...))
	s.pods = s.front("pods", all, s.authenticate(s.accounts()...))
	return s, nil
}

// admission returns what decides about writes, in order.
func (s *Server) admission() admission.Interface {
	c := &s.config
	all := []admission.Interface{namespaceLifecycle{s}, limitRanges{c.Store}, podReferences{c.Store}, resizeAdmission{c.Store},
		templateReferences{c.Store}, accountRole{s}, podSecurity{s}, privilegedServices{s},
		claimClass{c.Store, !c.UnknownStorageClassWaits}, escalation{s}, resourceQuotas{c.Store}}
	if c.WorkloadWithJob {
		all = append(all, gangs{})
	}
	return admission.NewChainHandler(all...)
}

// limitCopies bounds what the copies of a JSON patch may add to an object.
var limitCopies = sync.OnceFunc(func() { jsonpatch.AccumulatedCopySizeLimit = maxBodyBytes })

// add serves every kind under each of its groups.
func (s *Server) add(kinds []*kind.Kind) error {
	add := func(gv schema.GroupVersion, served map[string]rest.Storage) {
		for _, name := range slices.Sorted(maps.Keys(served)) {
			s.groups.add(gv, name, served[name])
			whole, _, _ := strings.Cut(name, "/")
			s.endpoints = append(s.endpoints,
				newEndpoint(gv.WithResource(name).GroupResource(), served[whole], served[name]))
		}
	}
	s.kinds = map[schema.GroupResource]string{}
	for _, k := range kinds {
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
	for _, k := range absent.Kinds {
		add(k.GroupVersion(), map[string]rest.Storage{k.Resource(): newNothing(k, s.config.Store)})
	}
	add(v1beta1.SchemeGroupVersion,
		map[string]rest.Storage{"pods": podMetrics{metered{s}}, "nodes": nodeMetrics{metered{s}}})
	add(authenticationv1.SchemeGroupVersion,
		map[string]rest.Storage{"selfsubjectreviews": whoAmI(), "tokenreviews": s.whoseToken()})
	add(authorizationv1.SchemeGroupVersion,
		map[string]rest.Storage{
			"selfsubjectaccessreviews": s.mayI(), "selfsubjectrulesreviews": s.whatMayI(),
			"subjectaccessreviews": s.maySomebody(), "localsubjectaccessreviews": s.maySomebodyHere(),
		})
	return nil
}

// Serve answers on all listeners until ctx is done or one of them fails. Then it waits a little for requests to
// end, and returns nil when ctx was the cause.
func (s *Server) Serve(ctx context.Context, listeners ...*Listener) error {
	defer s.stop()

	failed := make(chan error, len(listeners))
	servers := make([]*http.Server, len(listeners))
	for i, l := range listeners {
		servers[i] = s.httpServer(l)
		go func() { failed <- l.serve(servers[i], s.frontOf(l).connections) }()
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

// front is the API as one listener serves it: behind a chain of filters, with places and connections of its own, so
// that clients of one listener take nothing from those of another.
type front struct {
	name        string // as the metrics have it
	handler     http.Handler
	sharing     *sharing
	connections *connections
}

func (s *Server) front(name string, api http.Handler, access access) *front {
	sharing := newSharing(maxReads, maxWrites, s.config.MaxStreams)
	handler := s.chain(api, access, sharing)
	if name != "pods" {
		handler = withDashboard(handler)
	}
	return &front{name, s.panics.answer(handler), sharing, newConnections(maxIdle)}
}

func (s *Server) frontOf(l *Listener) *front {
	switch {
	case l.pods:
		return s.pods
	case l.tls != nil:
		return s.remote
	}
	return s.local
}

func (s *Server) httpServer(l *Listener) *http.Server {
	if l.tls != nil && !l.pods {
		at := l.Addr()
		s.at.Store(&at)
	}
	return &http.Server{
		Handler:           s.frontOf(l).handler,
		TLSConfig:         l.tls,
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return withConn(withPeer(ctx, c), c) },
		ReadHeaderTimeout: 10 * time.Second,
		MaxHeaderBytes:    maxHeaderBytes,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(s.config.Logger.Handler(), slog.LevelDebug),
	}
}

// longRunning reports whether a request lasts as long as the client wants.
func longRunning(r *http.Request, info *request.RequestInfo) bool {
	return isImagePath(r.URL.Path) || isProfilePath(r.URL.Path) || r.URL.Path == database.Path || watching(r, info)
}

var watching = genericfilters.BasicLongRunningRequestCheck(sets.NewString("watch"),
	sets.NewString("log", "exec", "attach", "portforward", "proxy", "files"))

// noAddresses makes clients stay on the address that they have found.
type noAddresses struct{}

func (noAddresses) ServerAddressByClientCIDRs(net.IP) []metav1.ServerAddressByClientCIDR {
	return []metav1.ServerAddressByClientCIDR{}
}
