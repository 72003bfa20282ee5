package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/fairshare"
)

const (
	// defaultMaxStreams bounds watches and logs.
	defaultMaxStreams = 5000
	// maxReads and maxWrites are the limits of a kube-apiserver.
	maxReads, maxWrites = 400, 200
	// maxSessions bounds the connections that reach into containers: exec, attach, portforward and proxy.
	maxSessions = 512
	// maxLists bounds lists that may be long, which cost most: their objects are held until the client has taken them.
	maxLists, maxListsOfOne = 32, 8
	// longList is how many objects a list asks for that is a long one.
	longList = 500
	// maxImages bounds imports and pulls of images that clients wait for.
	maxImages = 16
	// maxHeld bounds how many bytes of stored objects and of bodies requests hold until their clients have read the answer, or
	// sent it, with so much more for the administrator, and maxHeldOfOne those of one user.
	maxHeld, maxHeldOfOne = 256 << 20, 96 << 20
	// sharingWait is how long a request waits for a place. Long-running ones get theirs at once or not at all.
	sharingWait = 5 * time.Second
)

// sharing divides what one listener serves among its clients, for each kind of request.
type sharing struct {
	// reads and writes are the requests that end by themselves. Lists are in addition those of them that are long, and
	// watches until they have sent what there is at their beginning.
	reads, writes, lists *fairshare.Places
	// streams, sessions and images last as long as the client wants.
	streams, sessions, images *fairshare.Places
	// memory is what requests hold.
	memory *fairshare.Bytes
}

func newSharing(maxReads, maxWrites, maxStreams int) *sharing {
	// Half for one user, a quarter for one peer, and a tenth more for the administrator.
	of := func(total int, wait time.Duration) *fairshare.Places {
		half := max(1, total/2)
		return fairshare.New(fairshare.Limits{
			Total: total, Reserve: max(1, total/10), User: half, Peer: max(1, total/4),
			Queue: half, QueueAll: 2 * total, Wait: wait,
		})
	}
	return &sharing{
		reads: of(maxReads, sharingWait), writes: of(maxWrites, sharingWait),
		lists: fairshare.New(fairshare.Limits{
			Total: maxLists, Reserve: maxListsOfOne, User: maxListsOfOne, Peer: maxListsOfOne, Queue: maxReads / 2, QueueAll: 2 * maxReads, Wait: sharingWait,
		}),
		streams: of(maxStreams, 0), sessions: of(maxSessions, 0), images: of(maxImages, 0),
		memory: fairshare.NewBytes(fairshare.BytesLimits{Total: maxHeld, Reserve: maxHeldOfOne, User: maxHeldOfOne, Wait: sharingWait}),
	}
}

// all returns the places for each kind of request, by its name in the metrics.
func (s *sharing) all() map[string]*fairshare.Places {
	return map[string]*fairshare.Places{
		"read": s.reads, "write": s.writes, "list": s.lists, "stream": s.streams, "session": s.sessions, "image": s.images,
	}
}

// needed returns the places that a request needs.
func (s *sharing) needed(r *http.Request, info *request.RequestInfo) []*fairshare.Places {
	switch {
	case isImagePath(r.URL.Path) && r.Method == http.MethodPost:
		return []*fairshare.Places{s.images}
	case slices.Contains(reaching, info.Subresource):
		return []*fairshare.Places{s.sessions}
	case info.Verb == "watch" && beginsWithAll(r):
		return []*fairshare.Places{s.streams, s.lists}
	case longRunning(r, info):
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

// fairly lets a request through when its client has a place for it. Otherwise the client is told to retry. While a
// request is served, its connection is kept.
func (s *sharing) fairly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok {
			responsewriters.InternalError(w, r, fmt.Errorf("it is not known what %s asks for", r.URL.Path))
			return
		}
		who := clientFrom(r.Context())
		full := s.serve(w, r, info, who, next)
		if full == nil {
			return
		}
		metrics.RecordDroppedRequest(r, info, metrics.APIServerComponent, full == s.writes)
		metrics.RecordRequestTermination(r, info, metrics.APIServerComponent, http.StatusTooManyRequests)
		most := full.User
		if who.Admin {
			most = full.Total
		}
		err := apierrors.NewTooManyRequests(fmt.Sprintf(
			"too many requests like this one are served: %s may have %d at a time, and all clients together %d", who.Name, most, full.Total), 1)
		responsewriters.ErrorNegotiated(err, scheme.Codecs, schema.GroupVersion{}, w, r)
	})
}

// serve returns what there was no place for, or nil when the request was served.
func (s *sharing) serve(w http.ResponseWriter, r *http.Request, info *request.RequestInfo, who fairshare.Client, next http.Handler) (full *fairshare.Places) {
	if c := connFrom(r.Context()); c != nil {
		c.hold()
		defer c.release()
	}
	for _, of := range s.needed(r, info) {
		release, ok := of.Take(r.Context(), who)
		if !ok {
			return of
		}
		defer release()
		if of == s.lists && info.Verb == "watch" {
			r = r.WithContext(utilflowcontrol.WithInitializationSignal(r.Context(), initialized(release)))
		}
	}
	if !longRunning(r, info) { // those let go of what they have read
		held := s.memory.Request(who)
		defer held.Release()
		r = r.WithContext(storage.WithMemory(r.Context(), held))
	}
	next.ServeHTTP(w, r)
	return nil
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

// withClient keeps the client of a request, from before it impersonates another user.
func withClient(ctx context.Context, who user.Info) context.Context {
	c := fairshare.Client{Name: shareOf(who)}
	if p, ok := peerFrom(ctx); ok {
		c.Admin = p.UID == 0 || int(p.UID) == os.Geteuid()
	} else {
		c.Admin = in(who, adminGroup)
		if counted := connFrom(ctx); counted != nil && counted.peer != loopback {
			c.Peer = counted.peer
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
		if said, ok := strings.CutPrefix(group, groupPrefix); ok && err != nil {
			_, namespace, _ = strings.Cut(said, ":")
		}
	}
	if namespace == "" {
		return who.GetName()
	}
	return "namespace " + namespace
}

func clientFrom(ctx context.Context) fairshare.Client {
	c, _ := ctx.Value(clientKey{}).(fairshare.Client)
	return c
}

// connFrom returns the connection of a request; nil if it is in no table.
func connFrom(ctx context.Context) *conn {
	c, ok := ctx.Value(connKey{}).(net.Conn)
	if !ok {
		return nil
	}
	_, counted := innermost(c)
	return counted
}
