package image

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/jobd/jobd/runtime"
)

// claims are what the images that are under way take of the disk. When it runs short the largest gives way, of the tenant that takes most:
// one bomb, or many small ones, would otherwise end what everybody else pulls.
type claims struct {
	mu  sync.Mutex
	all map[*claim]struct{}
}

// claim is what one image takes, from its first byte until what is not kept of it has been removed.
type claim struct {
	tenant       string // empty: nobody's
	bytes, files atomic.Int64
	end          func(error) // ends what writes now; nil: nothing does
	gaveWay      bool
}

type claimKey struct{}

// claimOf returns the claim of what is written with a context; nil if that has none.
func claimOf(ctx context.Context) *claim {
	c, _ := ctx.Value(claimKey{}).(*claim)
	return c
}

// begin returns a context with a claim, and what ends that. Within a claim this is that of the outer one.
func (c *claims) begin(ctx context.Context) (_ context.Context, end func()) {
	if claimOf(ctx) != nil {
		return ctx, func() {}
	}
	one := &claim{tenant: runtime.Tenant(ctx)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[*claim]struct{}{}
	}
	c.all[one] = struct{}{}
	return context.WithValue(ctx, claimKey{}, one), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.all, one)
	}
}

// writes takes in that something writes for a claim, until over is called, and how to end that.
func (c *claims) writes(one *claim, end func(error)) (over func()) {
	set := func(end func(error)) {
		c.mu.Lock()
		defer c.mu.Unlock()
		one.end = end
	}
	set(end)
	return func() { set(nil) }
}

// giveWay ends what takes most, by its bytes or else by its files, unless something else is still being removed that gave way.
func (c *claims) giveWay(byBytes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	amount := func(one *claim) int64 {
		if byBytes {
			return one.bytes.Load()
		}
		return one.files.Load()
	}
	var writing []*claim
	took := map[string]int64{}
	for one := range c.all {
		switch {
		case one.gaveWay:
			return
		case one.end != nil:
			writing = append(writing, one)
		}
		took[one.tenant] += amount(one)
	}
	if len(writing) == 0 {
		return
	}
	most := slices.MaxFunc(writing, func(a, b *claim) int {
		of := func(one *claim) int64 {
			if one.tenant == "" {
				return amount(one)
			}
			return took[one.tenant]
		}
		return cmp.Or(cmp.Compare(of(a), of(b)), cmp.Compare(amount(a), amount(b)))
	})
	most.gaveWay = true
	most.end(errNoRoom)
}

// takes counts what an image is about to take of the disk. There may be no room that bounds it.
func (r *room) takes(bytes, files int64) {
	if r != nil && r.claim != nil {
		add(&r.claim.bytes, bytes)
		add(&r.claim.files, files)
	}
}

// add adds up to more than any disk has: a file that is one hole may be of any size, and two of them of more than there are numbers.
func add(to *atomic.Int64, n int64) {
	const most = 1 << 50
	for {
		old := to.Load()
		if to.CompareAndSwap(old, old+min(n, most-old)) {
			return
		}
	}
}
