package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/internal/engine"
	"github.com/jobd/jobd/runtime"
)

// labelEngine is on an image that was taken from a Docker or a podman of this machine: its name, and what the engine called the image
// by (docker/ID). Such an image is for every pod, as an imported one, and the engine could give it again, as a registry could.
const labelEngine = "jobd.dev/taken-from"

// preparing is how many times as long as any other silence that of an engine may be before it sends the first byte: it writes the whole
// archive to its disk before.
const preparing = 10

// asksEngines reports whether a policy lets the engines be asked.
func (i *Images) asksEngines(policy corev1.PullPolicy) bool {
	return len(i.options.Engines) > 0 && policy != corev1.PullAlways && policy != corev1.PullNever
}

// fromEngines returns what an image is now according to the engines, which may be what is here, and whether one of them has it. An
// error beside true is that of taking it; otherwise it says which engines have not answered.
func (i *Images) fromEngines(
	ctx context.Context, name string, present runtime.Image, here bool, progress func(string),
) (img runtime.Image, has bool, err error) {
	if digested(name) { // what they give has another digest
		return present, false, nil
	}
	var silent []error
	for _, e := range i.options.Engines {
		found, err := e.Find(ctx, name)
		switch {
		case errdefs.IsNotFound(err):
			continue
		case ctx.Err() != nil:
			return present, true, context.Cause(ctx)
		case err != nil:
			silent = append(silent, err)
			continue
		case !i.platform.Match(found.Platform):
			silent = append(silent, fmt.Errorf("the image of %s is for %s, this machine is %s: %w", e.Name, platforms.Format(found.Platform),
				platforms.Format(platforms.DefaultSpec()), errdefs.ErrNotFound))
			continue
		}
		if here && i.takenAs(ctx, name) == e.Name+"/"+found.ID {
			return present, true, nil
		}
		img, err := i.take(ctx, e, found, name, progress)
		return img, true, err
	}
	if here && len(silent) > 0 {
		i.options.Logger.Warn("cannot look whether an image has changed", "image", name, "error", errors.Join(silent...))
	}
	return present, false, errors.Join(silent...)
}

// takenAs returns where an image that is present was taken from, and what it is called there.
func (i *Images) takenAs(ctx context.Context, name string) string {
	stored, err := i.client.ImageService().Get(i.inNamespace(ctx), name)
	if err != nil {
		return "" // it has just been removed
	}
	return stored.Labels[labelEngine]
}

// take imports an image from an engine, once for all who want it.
func (i *Images) take(ctx context.Context, e engine.Engine, found engine.Image, name string, progress func(string)) (runtime.Image, error) {
	key := "take " + name + " " + e.Name + "/" + found.ID
	return i.once(ctx, key, "it", progress, func(ctx context.Context, report func(string)) (runtime.Image, error) {
		report("Taking " + name + " from " + e.Name)
		t := &transfer{name: name, engine: e.Name, report: report}
		t.total.Store(found.Size)
		img, err := i.takeAs(ctx, e, found.ID, name, t)
		if err == nil {
			return img, nil
		}
		if late, ok := errors.AsType[*silence](context.Cause(ctx)); ok {
			err = late
		}
		if diskFull(err) || errors.Is(err, errNoRoom) {
			i.options.DiskFull()
		}
		if errors.Is(err, context.Canceled) {
			return runtime.Image{}, fmt.Errorf("take %s from %s: %w", name, e.Name, err)
		}
		class, message := classify(err)
		return runtime.Image{}, &classed{fmt.Sprintf("take %s from %s: %s", name, e.Name, message), class, err}
	})
}

func (i *Images) takeAs(ctx context.Context, e engine.Engine, id, name string, t *transfer) (runtime.Image, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := i.options.StallTimeout
	silent := time.AfterFunc(preparing*stall, func() { cancel(&silence{fmt.Errorf("%s sent nothing for %s", e.Name, preparing*stall)}) })
	defer silent.Stop()
	archive, err := e.Save(ctx, id)
	if err == nil {
		defer archive.Close()
		silent.Stop()
		timer := time.AfterFunc(stall, func() { cancel(&silence{fmt.Errorf("%s sent nothing for %s", e.Name, stall)}) })
		timer.Stop()
		from := &given{r: archive, timer: timer, stall: stall, pace: newPace(stall)}
		labels := map[string]string{labelEngine: e.Name + "/" + id, labelPulled: "true"}
		var list []runtime.Image
		if list, err = i.importAs(ctx, from, name, labels, t); err == nil {
			return list[0], nil
		}
	}
	if late, ok := errors.AsType[*silence](context.Cause(ctx)); ok {
		err = late
	}
	return runtime.Image{}, err
}

// given is what an engine sends. It bounds how long that may send nothing, and how little.
type given struct {
	r     io.Reader
	timer *time.Timer
	stall time.Duration
	pace  pace
}

// Read runs the timer only while it waits for the engine, since the disk on our side may be slow.
func (g *given) Read(p []byte) (int, error) {
	g.timer.Reset(g.stall)
	began := time.Now()
	n, err := g.r.Read(p)
	g.timer.Stop()
	if slow := g.pace.add(n, time.Since(began)); slow != nil && err == nil {
		return n, slow
	}
	return n, err
}
