// Package flowcontrol bounds what clients can use of the daemon's resources: how large a request is, how many are served at a time
// and for whom, and how slowly one may be sent or its answer read. The bodies of requests (3 MiB) and how many of them are served at
// a time (400 that read, 200 that write) are bounded as in a cluster. Each filter wraps a handler and knows nothing of the next.
package flowcontrol

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/jobd/jobd/api/conns"
	"github.com/jobd/jobd/api/frames"
	"github.com/jobd/jobd/api/images"
	"github.com/jobd/jobd/api/roles"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/internal/fairshare"
)

const (
	// DefaultMaxStreams bounds watches and logs.
	DefaultMaxStreams = 5000
	// maxReads and maxWrites are the limits of a kube-apiserver.
	maxReads, maxWrites = 400, 200
	// maxSessions bounds the connections that reach into containers: exec, attach, portforward and proxy.
	maxSessions = 512
	// maxLists bounds lists that may be long, which cost most: their objects are held until the client has taken them.
	maxLists, MaxListsOfOne = 32, 8
	// longList is how many objects a list asks for that is a long one.
	longList = 500
	// maxImages bounds imports and pulls of images that clients wait for.
	maxImages = 16
	// maxHeld bounds how many bytes of stored objects and of bodies requests hold until their clients have read the answer, or
	// sent it, with so much more for the administrator, and maxHeldOfOne those of one user.
	maxHeld, MaxHeldOfOne = 256 << 20, 96 << 20
	// maxUnread and MaxUnreadOfOne bound in the same way how many bytes events of watches have that clients have not read, but for
	// small ones.
	maxUnread, MaxUnreadOfOne = 256 << 20, 64 << 20
	// maxFrames and maxFramesOfOne bound in the same way what large frames have that clients send to containers.
	maxFrames, maxFramesOfOne = 256 << 20, 64 << 20
	// sharingWait is how long a request waits for a place. Long-running ones get theirs at once or not at all.
	sharingWait = 5 * time.Second
)

// Shares divides what one listener serves among its clients, for each kind of request.
type Shares struct {
	// reads and writes are the requests that end by themselves. Lists are in addition those of them that are long, and
	// watches until they have sent what there is at their beginning.
	reads, writes, lists *fairshare.Places
	// heavy are in addition those writes whose bodies are large, once they have been sent: they are computed with, and not waited for.
	heavy *fairshare.Places
	// streams, sessions and images last as long as the client wants.
	streams, sessions, images *fairshare.Places
	// memory is what requests hold, unread what events of watches do, and frames what large frames of sessions do.
	memory, unread, frames *fairshare.Bytes

	longRunning request.LongRunningRequestCheck
}

// NewShares makes the places of one listener, with maxStreams for requests that are long-running. Clients are hung up on that do
// not read what is written to them within a time (DropSlowReaders).
func NewShares(maxStreams int, longRunning request.LongRunningRequestCheck, within time.Duration) *Shares {
	// Half for one user, a quarter for one peer, and a tenth more for the administrator.
	of := func(total int, wait time.Duration) *fairshare.Places {
		half := max(1, total/2)
		return fairshare.New(fairshare.Limits{
			Total: total, Reserve: max(1, total/10), User: half, Peer: max(1, total/4),
			Queue: half, QueueAll: 2 * total, Wait: wait,
		})
	}
	return &Shares{
		longRunning: longRunning,
		reads:       of(maxReads, sharingWait), writes: of(maxWrites, sharingWait),
		lists: fairshare.New(fairshare.Limits{
			Total: maxLists, Reserve: MaxListsOfOne, User: MaxListsOfOne, Peer: MaxListsOfOne, Queue: maxReads / 2, QueueAll: 2 * maxReads, Wait: sharingWait,
		}),
		heavy:   heavyPlaces(runtime.GOMAXPROCS(0)),
		streams: of(maxStreams, 0), sessions: of(maxSessions, 0), images: of(maxImages, 0),
		memory: fairshare.NewBytes(fairshare.BytesLimits{Total: maxHeld, Reserve: MaxHeldOfOne, User: MaxHeldOfOne, Wait: sharingWait}),
		frames: fairshare.NewBytes(fairshare.BytesLimits{Total: maxFrames, Reserve: maxFramesOfOne, User: maxFramesOfOne, Wait: sharingWait}),
		// Who reads gets the share of those who do not when they are hung up on.
		unread: fairshare.NewBytes(fairshare.BytesLimits{
			Total: maxUnread, Reserve: MaxUnreadOfOne, User: MaxUnreadOfOne, Wait: within + sharingWait,
		}),
	}
}

// All returns the places for each kind of request, by its name in the metrics.
func (s *Shares) All() map[string]*fairshare.Places {
	return map[string]*fairshare.Places{
		"read": s.reads, "write": s.writes, "list": s.lists, "heavy": s.heavy, "stream": s.streams, "session": s.sessions, "image": s.images,
	}
}

// Needed returns the places that a request needs.
func (s *Shares) Needed(r *http.Request, info *request.RequestInfo) []*fairshare.Places {
	switch {
	case r.URL.Path == images.Path && r.Method == http.MethodPost:
		return []*fairshare.Places{s.images}
	case slices.Contains(roles.Reaching, info.Subresource):
		return []*fairshare.Places{s.sessions}
	case info.Verb == "watch" && beginsWithAll(r):
		return []*fairshare.Places{s.streams, s.lists}
	case s.longRunning(r, info):
		return []*fairshare.Places{s.streams}
	case info.Verb == "list" && isLong(r):
		return []*fairshare.Places{s.lists, s.reads}
	case info.Verb == "deletecollection":
		return []*fairshare.Places{s.lists, s.writes}
	case info.Verb == "get" || info.Verb == "list":
		return []*fairshare.Places{s.reads}
	}
	return []*fairshare.Places{s.writes}
}

// Fairly lets a request through when its client has a place for it. Otherwise the client is told to retry. While a
// request is served, its connection is kept.
func (s *Shares) Fairly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok {
			responsewriters.InternalError(w, r, fmt.Errorf("it is not known what %s asks for", r.URL.Path))
			return
		}
		needed := s.Needed(r, info)
		if slices.Contains(needed, s.streams) {
			if err := checkStream(r); err != nil {
				responsewriters.ErrorNegotiated(err, scheme.Answers, schema.GroupVersion{}, w, r)
				return
			}
		}
		who := ClientFrom(r.Context())
		full := s.serve(w, r, info, who, needed, next)
		if full == nil {
			return
		}
		metrics.RecordDroppedRequest(r, info, metrics.APIServerComponent, full == s.writes)
		metrics.RecordRequestTermination(r, info, metrics.APIServerComponent, http.StatusTooManyRequests)
		responsewriters.ErrorNegotiated(tooMany(full, who), scheme.Answers, schema.GroupVersion{}, w, r)
	})
}

// tooMany is the error of a client that there was no place for.
func tooMany(full *fairshare.Places, who fairshare.Client) error {
	most := full.User
	if who.Admin {
		most = full.Total
	}
	return apierrors.NewTooManyRequests(fmt.Sprintf(
		"too many requests like this one are served: %s may have %d at a time, and all clients together %d", who.Name, most, full.Total), 1)
}

// serve returns which of the places that the request needs there was none of, or nil when it was served.
func (s *Shares) serve(
	w http.ResponseWriter, r *http.Request, info *request.RequestInfo, who fairshare.Client, needed []*fairshare.Places, next http.Handler,
) (full *fairshare.Places) {
	if c := conns.From(r.Context()); c != nil {
		c.Hold()
		defer c.Release()
	}
	stream := conns.StreamFrom(r.Context())
	stream.Hold()
	defer stream.Release()
	work := &storage.Work{}
	defer work.Answered()
	for _, of := range needed {
		release, ok := of.Take(r.Context(), who)
		if !ok {
			return of
		}
		work.After(release)
		if of == s.lists && info.Verb == "watch" {
			r = r.WithContext(utilflowcontrol.WithInitializationSignal(r.Context(), initialized(release)))
		}
	}
	w, r = s.boundFrames(w, r, info, who)
	if info.Verb == "watch" {
		ctx, unread := storage.WithUnread(r.Context(), func(ctx context.Context, n int) (func(), bool) {
			held := s.unread.Request(who)
			return held.Release, held.Grow(ctx, n)
		})
		defer unread.End()
		w, r = writtenOf(w, unread), r.WithContext(ctx)
	}
	if !s.longRunning(r, info) { // those let go of what they have read
		held := s.memory.Request(who)
		work.After(held.Release)
		ctx := storage.WithWork(storage.WithMemory(r.Context(), held), work)
		if isWhole(r) {
			ctx = storage.Whole(ctx)
		}
		if slices.Contains(needed, s.writes) {
			ctx = context.WithValue(ctx, heavyKey{}, func(ctx context.Context) error {
				release, ok := s.heavy.Take(ctx, who)
				if !ok {
					return tooMany(s.heavy, who)
				}
				work.After(release)
				return nil
			})
		}
		r = r.WithContext(ctx)
	}
	next.ServeHTTP(w, r)
	if info.Verb != "watch" && s.longRunning(r, info) {
		delivered(w, r) // DropSlowReaders leaves it alone
	}
	return nil
}

// boundFrames bounds what comes on a connection that the request has upgraded, but for what a pod is to read and nobody else.
func (s *Shares) boundFrames(
	w http.ResponseWriter, r *http.Request, info *request.RequestInfo, who fairshare.Client,
) (http.ResponseWriter, *http.Request) {
	if !httpstream.IsUpgradeRequest(r) || info.Subresource == "proxy" {
		return w, r
	}
	if !slices.Contains(roles.Reaching, info.Subresource) {
		return frames.Bound(w, r, frames.OfStreams, nil)
	}
	return frames.Bound(w, r, frames.OfSessions, func(n int) (func(), bool) {
		held := s.frames.Request(who)
		ok := held.Grow(r.Context(), n)
		return held.Release, ok
	})
}

// isLong reports whether a list may have many objects.
func isLong(r *http.Request) bool {
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	return err != nil || limit <= 0 || limit > longList
}

// beginsWithAll reports whether a watch begins with the existing objects.
func beginsWithAll(r *http.Request) bool {
	query := r.URL.Query()
	if initial, err := strconv.ParseBool(query.Get("sendInitialEvents")); err == nil {
		return initial
	}
	version := query.Get("resourceVersion")
	return version == "" || version == "0"
}

// initialized is called by a watch that has sent those.
type initialized func()

func (f initialized) Signal() { f() }

// Wait is for an apiserver's own filter.
func (initialized) Wait() {}

type clientKey struct{}

// WithClient keeps the client of a request, from before it impersonates another user.
func WithClient(ctx context.Context, who user.Info) context.Context {
	c := fairshare.Client{Name: shareOf(who)}
	if p, ok := conns.PeerFrom(ctx); ok {
		c.Admin = p.UID == 0 || int(p.UID) == os.Geteuid()
	} else {
		c.Admin = roles.InGroup(who, roles.AdminGroup)
		if counted := conns.From(ctx); counted != nil && counted.Peer != conns.Loopback {
			c.Peer = counted.Peer
		}
		if c.Name == user.Anonymous {
			c.Name += " at " + c.Peer
		}
	}
	return context.WithValue(ctx, clientKey{}, c)
}

// shareOf returns in whose name somebody holds places: the namespace, for those who have a role in one alone. Its
// administrator can make any number of ServiceAccounts, each of which would be another user.
func shareOf(who user.Info) string {
	namespace, _, err := serviceaccount.SplitUsername(who.GetName())
	for _, group := range who.GetGroups() {
		if r, _, ok := roles.OfGroup(group); ok && err != nil {
			namespace = r.Namespace
		}
	}
	if namespace == "" {
		return who.GetName()
	}
	return "namespace " + namespace
}

// Held returns how many bytes requests hold, and how many requests were refused since they would have held too many.
func (s *Shares) Held() (bytes int, refused uint64) { return s.memory.Held() }

// Unread returns how many bytes of events clients have not read, and how many watches were ended since they would have held too
// many.
func (s *Shares) Unread() (bytes int, refused uint64) { return s.unread.Held() }

// ClientFrom returns the client that WithClient has kept, in whose name places are held.
func ClientFrom(ctx context.Context) fairshare.Client {
	c, _ := ctx.Value(clientKey{}).(fairshare.Client)
	return c
}
