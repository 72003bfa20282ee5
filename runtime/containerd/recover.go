package containerd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/cgroup"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

// recover finds every container again: the objects say which exist, the shards say what state they are in.
func (r *Runtime) recover(ctx context.Context) error {
	ctx = inNamespace(ctx)
	if err := errors.Join(r.forget(ctx), r.endLeases(ctx), unmountViews(r.config.State)); err != nil {
		return err
	}
	crash.At("recover.database")
	objects, err := r.server.containers().List(ctx, "")
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	type found struct {
		shard  int
		record protocol.Container
	}
	records := map[string]found{}
	for index, s := range r.shards.all {
		list, err := s.List(ctx)
		if err != nil {
			return fmt.Errorf("list containers of shard %d: %w", index, err)
		}
		for _, record := range list {
			records[record.ID] = found{index, record}
		}
	}

	r.mu.Lock()
	for _, object := range objects {
		if object.Runtime.Name != runtimeName {
			continue
		}
		attempt, _ := strconv.Atoi(object.Labels[labelAttempt])
		held := &container{
			shard: r.shards.of(object.Labels[labelPodUID]),
			ended: make(chan struct{}),
			status: runtime.Status{
				ID: object.ID, PodUID: object.Labels[labelPodUID], Name: object.Labels[labelContainer],
				Attempt: attempt, State: runtime.Created, Image: object.Image, User: recordedUser(object.Spec),
			},
		}
		if f, ok := records[object.ID]; ok {
			held.shard = f.shard
			// One that is still being started is not known to run: whoever starts it again waits for the outcome.
			if f.record.State != protocol.Starting {
				fold(&held.status, f.record)
			}
		}
		if s := held.status.State; s == runtime.Exited || s == runtime.Lost {
			held.reported = true // Containers lists it
			close(held.ended)
		}
		r.containers[object.ID] = held
		delete(records, object.ID)
	}
	r.mu.Unlock()

	// A container may have ended after its shard was asked and before it was known here.
	for index, s := range r.shards.all {
		list, err := s.List(ctx)
		if err != nil {
			return fmt.Errorf("list containers of shard %d: %w", index, err)
		}
		for _, record := range list {
			if record.State.Ended() {
				r.ended(index, record)
			}
		}
	}

	r.cleanup.Go(func() {
		if err := r.server.database.catchUp(); err != nil {
			r.logger.Warn("cannot copy the database of images, which is retried with the next change", "error", err)
		}
		crash.At("recover.records.before")
		for id, f := range records {
			if _, err := r.shards.at(f.shard).Delete(r.server.ctx, id); err != nil {
				r.logger.Warn("cannot clear what is left of a removed container", "container", id, "error", err)
			}
		}
		crash.At("recover.sweep.before")
		if err := r.sweep(inNamespace(r.server.ctx)); err != nil && r.server.ctx.Err() == nil {
			r.logger.Warn("cannot clear what an earlier run has left", "error", err)
		}
		crash.At("recover.sweep.after")
	})
	return nil
}

// endLeases ends the leases of the unfinished pulls of an earlier process, which nobody continues, so that the
// collector may remove what they have fetched.
func (r *Runtime) endLeases(ctx context.Context) error {
	leases := r.server.client.LeasesService()
	held, err := leases.List(ctx)
	if err != nil {
		return fmt.Errorf("list leases: %w", err)
	}
	for _, l := range held {
		if err := leases.Delete(ctx, l); err != nil && !errors.Is(err, errdefs.ErrNotFound) {
			return fmt.Errorf("end lease %s: %w", l.ID, err)
		}
	}
	return nil
}

// sweep removes what a crash has left of containers that no longer exist.
func (r *Runtime) sweep(ctx context.Context) error {
	var errs []error
	snapshotter := r.server.snapshots()
	errs = append(errs, r.server.layers.sweep(ctx, func(container string) bool {
		_, err := snapshotter.Stat(ctx, container)
		return !errors.Is(err, errdefs.ErrNotFound)
	}))
	errs = append(errs, r.server.layers.Cleanup(ctx))
	errs = append(errs, r.sweepCgroups())
	errs = append(errs, r.shards.retire(ctx))
	return errors.Join(errs...)
}

// sweepCgroups removes the control groups of containers that no longer exist, with what runs in them.
func (r *Runtime) sweepCgroups() error {
	names, err := r.cgroups.Children(r.config.CgroupParent)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		r.mu.Lock()
		_, known := r.containers[name]
		r.mu.Unlock()
		other := slices.ContainsFunc([]string{shardPrefix, probePrefix, cgroup.PodPrefix}, func(prefix string) bool {
			return strings.HasPrefix(name, prefix)
		})
		if !known && !other {
			errs = append(errs, r.cgroups.RemoveAll(r.config.CgroupParent+"/"+name))
		}
	}
	return errors.Join(errs...)
}
