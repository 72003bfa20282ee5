package joblogs

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/jobd/jobd/api/flowcontrol"
	"github.com/jobd/jobd/internal/fairshare"
)

const (
	// maxFollowed is how many logs of Jobs are followed at a time, by all who do so, and maxFollowedOfOne those of one user: each is an
	// open file and some goroutines, and a Job may have a thousand for each request.
	maxFollowed, maxFollowedOfOne = 8000, 4000
	// maxHeld is how many bytes of lines are held back until their ends arrive, but for short ones, and maxHeldOfOne those of one user.
	maxHeld, maxHeldOfOne = 64 << 20, 16 << 20
	// longWait is how long a reader waits for its turn: others' are short, and those who have had fewest are next.
	longWait = 10 * time.Minute
	// tailWait is how long somebody waits who wants the last lines of a Job, which takes the time to look through all its logs.
	tailWait = 20 * time.Second
)

// shares divide among clients what reading logs takes of the daemon: the API bounds only how many requests there are.
type shares struct {
	turns    *fairshare.Places // of looking through logs
	tails    *fairshare.Places // of looking for the last lines of a Job, which are held meanwhile
	followed *fairshare.Places
	held     *fairshare.Bytes
}

func newShares() *shares {
	some := max(2, runtime.GOMAXPROCS(0)/2)
	few := fairshare.Limits{Total: some, Reserve: 1, User: some / 2, Peer: some / 2}
	turns, tails := few, few
	turns.Queue, turns.QueueAll, turns.Wait = 1<<20, 1<<20, longWait // as many as there are requests
	tails.Queue, tails.QueueAll, tails.Wait = 256, 1024, tailWait
	return &shares{
		turns: fairshare.New(turns), tails: fairshare.New(tails),
		followed: fairshare.New(fairshare.Limits{Total: maxFollowed, Reserve: maxFollowed / 4, User: maxFollowedOfOne, Peer: maxFollowedOfOne / 2}),
		held:     fairshare.NewBytes(fairshare.BytesLimits{Total: maxHeld, Reserve: maxHeldOfOne, User: maxHeldOfOne}),
	}
}

// turn waits for a turn of looking through logs.
func (s *shares) turn(ctx context.Context) (over func(), err error) {
	over, ok := s.turns.Take(ctx, flowcontrol.ClientFrom(ctx))
	if ok {
		return over, nil
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return nil, apierrors.NewTooManyRequests("too many logs are read", 10)
}

// tail waits until the last lines of a Job may be looked for.
func (s *shares) tail(ctx context.Context) (over func(), err error) {
	over, ok := s.tails.Take(ctx, flowcontrol.ClientFrom(ctx))
	if !ok {
		return nil, apierrors.NewTooManyRequests("the last lines of other Jobs are looked for, which takes long", 10)
	}
	return over, nil
}

// follow takes a place for one more log that is followed.
func (s *shares) follow(ctx context.Context) (over func(), err error) {
	over, ok := s.followed.Take(ctx, flowcontrol.ClientFrom(ctx))
	if !ok {
		return nil, apierrors.NewTooManyRequests("too many logs of Jobs are followed: a request needs a place for itself, and one for each container that runs", 10)
	}
	return over, nil
}

// heldLines are the beginnings of lines that one request holds back.
type heldLines struct {
	share *fairshare.HeldBytes
	bytes atomic.Int64 // no more than the share of a user, though its first request might have more
}

func (s *shares) lines(ctx context.Context) *heldLines {
	return &heldLines{share: s.held.Request(flowcontrol.ClientFrom(ctx))}
}

// grow adds to them, and reports whether there is room for that.
func (h *heldLines) grow(n int) bool {
	if h.bytes.Add(int64(n)) <= maxHeldOfOne && h.share.Grow(context.Background(), n) {
		return true
	}
	h.bytes.Add(int64(-n))
	return false
}

func (h *heldLines) shrink(n int) {
	h.bytes.Add(int64(-n))
	h.share.Shrink(n)
}
