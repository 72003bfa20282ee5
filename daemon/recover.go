package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/store"
)

// epochKey holds the epoch that the stored pods were last known in.
const epochKey = "boots.jobd.dev/host"

// recover reads what the last daemon left: the records from the store, and from the runtime what became of the
// containers meanwhile. Starting anew is nothing but that.
func (l *loop) recover(ctx context.Context) error {
	if err := l.dropMemories(ctx); err != nil {
		return err
	}
	if err := l.renameNode(ctx); err != nil {
		return fmt.Errorf("name of the node: %w", err)
	}
	if err := l.rebuild(); err != nil {
		return err
	}
	known, epoch := make([]*corev1.Pod, 0, len(l.records.pods)), ""
	if err := l.store.View(func(s *store.Snapshot) error {
		if o, ok := s.Get(epochKey); ok {
			epoch = string(o.Value)
		}
		for _, rec := range l.records.pods {
			o, ok := s.Get(rec.key)
			if !ok {
				continue
			}
			p := newPod()
			if err := decode(o, p); err != nil {
				return err
			}
			known = append(known, p)
		}
		return nil
	}); err != nil {
		return err
	}
	rebooted := epoch != "" && epoch != l.epoch
	observations, err := l.workers.Recover(ctx, slices.Values(known), rebooted)
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	crash.At("recover.pods")
	if rebooted {
		l.logger.Warn("the host went down since the last run: what ran then is lost", "containers", len(observations))
	}
	if epoch != l.epoch {
		// In the transaction that takes in what the reboot has ended: a crash before it finds the old name again.
		l.newEpoch = l.epoch
	}
	l.Report(observations)
	return nil
}

// count gives what there is: Jobs, those that are not finished, and pods on this node.
func (l *loop) count() (all, unfinished, running int) {
	_ = l.store.View(func(s *store.Snapshot) error {
		all = s.Count(jobs + "/")
		return nil
	})
	for _, rec := range l.records.jobs {
		if !rec.Finished() {
			unfinished++
		}
	}
	return all, unfinished, l.records.node.Running()
}

// dropMemories removes what was kept for Jobs that are gone: a crash can come between the two.
func (l *loop) dropMemories(ctx context.Context) error {
	return l.store.Update(ctx, func(tx *store.Tx) error {
		tx.Range(memories+"/", "", func(o store.Object) bool {
			if j, ok := tx.Get(jobs + strings.TrimPrefix(o.Key, memories)); !ok || j.UID != o.UID {
				tx.Delete(o.Key)
			}
			return true
		})
		return nil
	})
}
