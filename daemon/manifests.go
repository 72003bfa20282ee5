package daemon

import (
	"context"

	"github.com/jobd/jobd/api/inspection"
	"github.com/jobd/jobd/daemon/manifests"
)

// openManifests makes what applies the directory of manifests, if there is one.
func (d *daemon) openManifests(from sources) (err error) {
	c := &d.config
	if c.ManifestsDir() == "" {
		return nil
	}
	d.manifests, err = manifests.New(manifests.Options{
		Dir: c.ManifestsDir(), Socket: c.Socket, Store: from.store, Node: from.machine.Name, Logger: c.Logger,
	})
	return err
}

// applyManifests begins to apply the directory, which needs the API to be served. The function that it returns waits for the end of
// that, after ctx.
func (d *daemon) applyManifests(ctx context.Context) (wait func()) {
	if d.manifests == nil {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.manifests.Run(ctx)
	}()
	return func() { <-done }
}

// inspectManifests says what has become of the directory; nil if there is none.
func inspectManifests(a *manifests.Applier) *inspection.Manifests {
	if a == nil {
		return nil
	}
	s := a.Status()
	is := &inspection.Manifests{Dir: a.Dir, Objects: s.Objects}
	for _, p := range s.Problems {
		is.Problems = append(is.Problems, inspection.ManifestProblem(p))
	}
	for _, p := range s.Warnings {
		is.Warnings = append(is.Warnings, inspection.ManifestProblem(p))
	}
	return is
}
