package image

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
)

// Size is an amount of disk. It has no inodes where the disk has no fixed number of them.
type Size struct{ Bytes, Inodes int64 }

// roomPeriod is how often the disk is looked at while an image is written; each time is one system call.
const roomPeriod = 50 * time.Millisecond

// errNoRoom is the error for an image that would leave too little of the disk. A layer of 2 kB may have a file of a terabyte.
var errNoRoom = fmt.Errorf("the image would fill the disk: %w", errdefs.ErrResourceExhausted)

// floor returns how much an image must leave of what is free when it begins: a tenth of what is beyond the reserve, and
// half of that if there is no more.
func floor(free, reserve Size) Size {
	of := func(free, reserve int64) int64 {
		if free <= reserve {
			return free / 2
		}
		return reserve + (free-reserve)/10
	}
	return Size{of(free.Bytes, reserve.Bytes), of(free.Inodes, reserve.Inodes)}
}

// last returns how much has to be left while what has given way for a floor is removed.
func last(floor, reserve Size) Size {
	of := func(floor, reserve int64) int64 {
		if floor <= reserve {
			return floor / 2
		}
		return reserve + (floor-reserve)/2
	}
	return Size{of(floor.Bytes, reserve.Bytes), of(floor.Inodes, reserve.Inodes)}
}

func (s Size) below(floor Size) bool { return s.Bytes < floor.Bytes || s.Inodes < floor.Inodes }

// inRoom calls write, which writes an image, and ends it when too little of the disk is left, and it is its turn to give way. What it
// has written goes as after any failure.
func (i *Images) inRoom(ctx context.Context, write func(context.Context) error) error {
	if i.options.Space == nil {
		return write(ctx)
	}
	free, reserve, err := i.options.Space()
	if err != nil {
		return err
	}
	floor := floor(free, reserve)
	last := last(floor, reserve)
	ctx, removed := i.claims.begin(ctx)
	defer removed()
	claim := claimOf(ctx)
	writing, end := context.WithCancelCause(ctx)
	writing = context.WithValue(writing, roomKey{}, newRoom(max(free.Bytes-floor.Bytes, 0), claim, end))
	defer i.claims.writes(claim, end)()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		ticks := time.NewTicker(roomPeriod)
		defer ticks.Stop()
		for {
			select {
			case <-writing.Done():
				return
			case <-ticks.C:
			}
			switch free, _, err := i.options.Space(); {
			case err != nil:
			case free.below(last):
				end(errNoRoom)
			case free.below(floor):
				i.claims.giveWay(free.Bytes < floor.Bytes)
			}
		}
	}()
	err = write(writing)
	end(nil)
	<-watched
	if err != nil && errors.Is(context.Cause(writing), errNoRoom) {
		return errNoRoom
	}
	return err
}

type roomKey struct{}

// room is what an image may take of the disk.
type room struct {
	bytes int64
	// unpacked is how many bytes the archive of one layer may have. What is in it is on the disk in the end, but for the headers,
	// and for what comes later in it again.
	unpacked int64
	claim    *claim
	end      func(error)
}

func newRoom(bytes int64, of *claim, end func(error)) *room {
	return &room{bytes: bytes, unpacked: min(bytes, math.MaxInt64/4)*2 + 1<<30, claim: of, end: end}
}

// roomOf returns the room for what is written with a context; nil if that has none.
func roomOf(ctx context.Context) *room {
	r, _ := ctx.Value(roomKey{}).(*room)
	return r
}

// exceed ends what is written.
func (r *room) exceed() error {
	r.end(errNoRoom)
	return errNoRoom
}

// leased returns a context whose lease keeps what is written with it until release. That collects what nothing else keeps if
// it is told of an error; otherwise it stays until the next collection, which may be a long time. Within a lease this is that
// of the outer one.
func (i *Images) leased(ctx context.Context) (_ context.Context, release func(failed bool), err error) {
	if _, ok := leases.FromContext(ctx); ok {
		return ctx, func(bool) {}, nil
	}
	leased, end, err := i.client.WithLease(ctx)
	if err != nil {
		return nil, nil, err
	}
	leased, removed := i.claims.begin(leased)
	return leased, func(failed bool) {
		defer removed()
		ctx := context.WithoutCancel(ctx)
		id, _ := leases.FromContext(leased)
		var err error
		if !failed {
			err = end(ctx)
		} else {
			err = i.client.LeasesService().Delete(ctx, leases.Lease{ID: id}, leases.SynchronousDelete)
		}
		if err != nil {
			i.options.Logger.Warn("cannot end a lease", "lease", id, "error", err)
		}
	}, nil
}
