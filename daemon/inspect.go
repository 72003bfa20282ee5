package daemon

import (
	"context"
	"runtime"
	"time"

	"github.com/jobd/jobd/api/inspection"
	"github.com/jobd/jobd/daemon/control"
	"github.com/jobd/jobd/daemon/manifests"
	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/internal/watchdog"
	"github.com/jobd/jobd/store"
)

// loopAnswers is how long the control loop may take to answer before it is said that it does not.
const loopAnswers = time.Second

// inspector says what the daemon is doing, for package api/inspection.
type inspector struct {
	store    *store.Store
	control  *control.Control
	workers  *worker.Pool
	watchdog *watchdog.Watchdog
	applier  *manifests.Applier // nil: none
	waiting  func() []error     // for addresses of the API
}

func (i *inspector) Inspect(ctx context.Context) *inspection.Daemon {
	is := &inspection.Daemon{
		At: time.Now(), Version: i.store.Version(), Goroutines: runtime.NumGoroutine(), Workers: i.workers.Inspect(),
		Manifests: inspectManifests(i.applier),
	}
	for _, v := range i.watchdog.Verdicts() {
		is.Sections = append(is.Sections, inspection.Section{
			Name: v.Section, Busy: v.Busy, Concern: v.Concern, Object: v.Object, Disk: v.Disk, Lasts: v.Lasts, Turns: v.Turn,
		})
	}
	for _, why := range i.waiting() {
		is.Waiting = append(is.Waiting, why.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, loopAnswers)
	defer cancel()
	var err error
	if is.Loop, err = i.control.Inspect(ctx); err != nil {
		is.LoopError = "the control loop has not answered within " + loopAnswers.String()
	}
	return is
}
