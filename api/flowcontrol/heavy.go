package flowcontrol

import (
	"context"

	"github.com/jobd/jobd/internal/fairshare"
)

// heavyPlaces are those of requests that take much computing. With all of one user's under way the processors are as busy as they can be,
// and a request of another one waits for its turn among so many: more of them would gain that user nothing, and delay all others. There are
// a few where there are few processors, since they are also held while a change is written to the disk.
func heavyPlaces(processors int) *fairshare.Places {
	one := max(4, processors)
	return fairshare.New(fairshare.Limits{
		Total: 2 * one, Reserve: one, User: one, Peer: one, Queue: maxWrites / 2, QueueAll: 2 * maxWrites, Wait: sharingWait,
	})
}

type heavyKey struct{}

// Heavy waits for a place for the write of a context to compute in, which it has until its end. Its body has been read by then: who sends
// one slowly keeps nobody waiting.
func Heavy(ctx context.Context) error {
	if take, ok := ctx.Value(heavyKey{}).(func(context.Context) error); ok {
		return take(ctx)
	}
	return nil
}
