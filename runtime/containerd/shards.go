package containerd

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sync/errgroup"

	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/shard"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

// shards are the processes that hold the containers: those that get new pods, and those that an earlier configuration
// has left with containers in them.
type shards struct {
	all map[int]*shard.Shard
	n   int // new pods go to the shards 0..n-1
}

// shardPrefix begins the names of the shards' control groups.
const shardPrefix = "shard-"

// openShards connects to every shard that exists, and starts those that are missing of the first n.
func openShards(ctx context.Context, c Config, onExit func(index int, ended protocol.Container)) (*shards, error) {
	dir := layout.State(c.State).Shards()
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("shards: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("shards: %w", err)
	}
	s := &shards{all: map[int]*shard.Shard{}, n: c.Shards}
	for i := range c.Shards {
		s.all[i] = nil
	}
	for _, e := range entries {
		if i, err := strconv.Atoi(e.Name()); err == nil {
			s.all[i] = nil
		}
	}
	launched := make(chan func(), len(s.all))
	var group errgroup.Group
	for i := range s.all {
		group.Go(func() error {
			o := shard.Options{
				Dir:    filepath.Join(dir, strconv.Itoa(i)),
				Binary: c.ShimPath,
				Cgroup: runtime.ShardCgroup(c.Root) + "/" + shardPrefix + strconv.Itoa(i),
				OnExit: func(ended protocol.Container) { onExit(i, ended) },
				Logger: c.Logger,
			}
			one, err := shard.Open(ctx, o)
			// A shard of an older version goes on for as long as it holds containers.
			if err == nil && one.IsOld() && one.Shutdown(ctx) == nil {
				one, err = shard.Open(ctx, o)
			}
			if err != nil {
				return err
			}
			launched <- func() { s.all[i] = one }
			return nil
		})
	}
	err = group.Wait()
	close(launched)
	for enter := range launched {
		enter()
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// of returns the index of the shard for the containers of a pod, all of which go to the same one.
func (s *shards) of(podUID string) int {
	h := fnv.New32a()
	h.Write([]byte(podUID))
	return int(h.Sum32() % uint32(s.n))
}

func (s *shards) at(index int) *shard.Shard { return s.all[index] }

// can reports whether all shards have a capability of package protocol.
func (s *shards) can(capability string) bool {
	for _, one := range s.all {
		if !one.Can(capability) {
			return false
		}
	}
	return true
}

// retire ends the shards that get no new pods and hold no container any more.
func (s *shards) retire(ctx context.Context) error {
	var errs []error
	for i, one := range s.all {
		if i < s.n || one == nil {
			continue
		}
		if err := one.Shutdown(ctx); !errdefs.IsFailedPrecondition(err) { // it holds containers
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// endTime bounds how long the end of shards may delay that of the daemon.
const endTime = 5 * time.Second

// close ends the shards that hold no container and disconnects from the others, which keep their containers until the
// next daemon comes.
func (s *shards) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	var group errgroup.Group
	for _, one := range s.all {
		if one == nil {
			continue
		}
		group.Go(func() error {
			err := one.Shutdown(ctx)
			if errdefs.IsFailedPrecondition(err) || errdefs.IsUnavailable(err) { // it holds containers, or is gone
				err = nil
			}
			return errors.Join(err, one.Close())
		})
	}
	return group.Wait()
}
