package image

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jobd/jobd/runtime"
)

// Of images that are written at the same time, the largest gives way when the disk runs short, and the others go on while it is removed.
func TestTheLargestGivesWay(t *testing.T) {
	const gib = 1 << 30
	plenty, reserve := Size{100 * gib, 1000}, Size{10 * gib, 100} // of which images leave 19 GiB and 190 inodes
	short, few := Size{18 * gib, 1000}, Size{100 * gib, 180}
	type image struct {
		name, tenant string
		takes        []Size
	}
	honest := image{"honest", "team", []Size{{5 * gib, 5}}}
	for _, c := range []struct {
		what   string
		images []image
		left   Size
		want   []string // those that end, one after the other, each once the one before is removed
	}{
		{"a bomb", []image{honest, {"bomb", "eve", []Size{{80 * gib, 1}}}}, short, []string{"bomb"}},
		{"one of the same tenant", []image{honest, {"bomb", "team", []Size{{80 * gib, 1}}}}, short, []string{"bomb"}},
		{"of very many files", []image{honest, {"files", "eve", []Size{{1, 800}}}}, few, []string{"files"}},
		{"many that are small", []image{
			honest, {"a", "eve", []Size{{3 * gib, 1}}}, {"b", "eve", []Size{{4 * gib, 1}}}, {"c", "eve", []Size{{2 * gib, 1}}},
		}, short, []string{"b"}},
		{"the administrator's are not added up", []image{
			honest, {"a", "", []Size{{3 * gib, 1}}}, {"b", "", []Size{{4 * gib, 1}}},
		}, short, []string{"honest"}},
		{"sizes beyond all numbers", []image{
			honest, {"holes", "eve", []Size{{math.MaxInt64, 1}, {math.MaxInt64, 1}}},
		}, short, []string{"holes"}},
		{"one after the other", []image{
			honest, {"bomb", "eve", []Size{{80 * gib, 1}}}, {"next", "eve", []Size{{70 * gib, 1}}},
		}, short, []string{"bomb", "next"}},
		{"all that there are", []image{honest, {"bomb", "eve", []Size{{80 * gib, 1}}}}, Size{11 * gib, 1000}, []string{"bomb", "honest"}},
		{"one alone", []image{honest}, short, []string{"honest"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				free := plenty
				i := &Images{options: Options{Space: func() (Size, Size, error) {
					mu.Lock()
					defer mu.Unlock()
					return free, reserve, nil
				}}}
				become := func(now Size) {
					mu.Lock()
					free = now
					mu.Unlock()
					time.Sleep(time.Second)
					synctest.Wait()
				}
				var ended []string
				var all sync.WaitGroup
				ctx, stop := context.WithCancel(t.Context())
				removed := map[string]func(){}
				for _, one := range c.images {
					ctx, end := i.claims.begin(runtime.ForTenant(ctx, one.tenant))
					removed[one.name] = end
					all.Go(func() {
						err := i.inRoom(ctx, func(ctx context.Context) error {
							for _, s := range one.takes {
								roomOf(ctx).takes(s.Bytes, s.Inodes)
							}
							<-ctx.Done()
							return ctx.Err()
						})
						if errors.Is(err, errNoRoom) {
							mu.Lock()
							ended = append(ended, one.name)
							mu.Unlock()
						}
					})
				}
				synctest.Wait()
				for n := range c.want {
					if become(c.left); c.left.Bytes > 15*gib && len(ended) != n+1 { // what gave way is still there
						t.Errorf("after %d have given way: %v", n, ended)
					}
					if n < len(ended) {
						removed[ended[n]]()
					}
				}
				become(plenty)
				stop()
				all.Wait()
				slices.Sort(ended)
				want := slices.Sorted(slices.Values(c.want))
				if !slices.Equal(ended, want) {
					t.Errorf("%v have given way, want %v", ended, want)
				}
			})
		})
	}
}
