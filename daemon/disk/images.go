package disk

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	units "github.com/docker/go-units"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/pressure"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/image"
	"github.com/jobd/jobd/store"
)

const (
	// imageGCPeriod is how often images are checked, as by a kubelet.
	imageGCPeriod = 5 * time.Minute
	// nodeStatusMaxImages is how many images the Node lists, as a kubelet's setting of that name.
	nodeStatusMaxImages = 50
)

// Alarm is raised when the disk was too full for an image.
type Alarm struct{ raised chan struct{} }

// NewAlarm makes an Alarm that is not raised.
func NewAlarm() Alarm { return Alarm{make(chan struct{}, 1)} }

// Raise returns at once. It may be called from any goroutine.
func (a Alarm) Raise() {
	select {
	case a.raised <- struct{}{}:
	default: // the last one has not been answered yet
	}
}

// ImageCollectorOptions are what an ImageCollector needs.
type ImageCollectorOptions struct {
	Images *image.Images
	Store  *store.Store
	Policy image.GCPolicy
	Root   string // a directory of the disk that images are on
	Node   *pressure.Node
	// Full, when it is raised, lets the ImageCollector collect at once.
	Full   Alarm
	Logger *slog.Logger
}

// ImageCollector removes images that no pod uses, and lists the others in the Node's status.
type ImageCollector struct {
	ImageCollectorOptions
	mu    sync.Mutex // held during a collection
	short shortage
}

// NewImageCollector makes an ImageCollector that does nothing until it runs.
func NewImageCollector(o ImageCollectorOptions) *ImageCollector {
	return &ImageCollector{ImageCollectorOptions: o}
}

// Run collects from time to time until ctx ends, and at once when the disk is full.
func (c *ImageCollector) Run(ctx context.Context) {
	period := imageGCPeriod
	if age := c.Policy.MaxAge; age > 0 {
		period = min(period, max(age/2, time.Second))
	}
	for {
		c.collect(ctx)
		timer := time.NewTimer(period)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-c.Full.raised:
			timer.Stop()
		}
	}
}

func (c *ImageCollector) collect(ctx context.Context) {
	done := c.remove(ctx, c.Policy)
	if ctx.Err() != nil {
		return
	}
	for _, reason := range c.short.reasons(done, time.Now(), c.Node.EventTTL) {
		c.Node.Tell(ctx, corev1.EventTypeWarning, reason, tooFull(done))
	}
}

// tooFull returns the message, in a kubelet's words, that a collection could not free enough.
func tooFull(done image.Collected) string {
	capacity := units.CustomSize("%.1f %s", float64(done.Before.Capacity), 1024,
		[]string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"})
	return fmt.Sprintf("Insufficient free disk space on the node's image filesystem (%d%% of %s used). "+
		"Failed to free sufficient space by deleting unused images (freed %d bytes). "+
		"Investigate disk usage, as it could be used by active images, logs, volumes, or other data.",
		100-done.Before.Available*100/done.Before.Capacity, capacity, done.Freed)
}

// reclaim removes all images that may be removed, since otherwise pods have to go; but none because of the disk if the
// settings say never.
func (c *ImageCollector) reclaim(ctx context.Context) {
	p := c.Policy
	if p.HighThreshold < 100 {
		p.HighThreshold, p.LowThreshold = 0, 0
	}
	c.remove(ctx, p)
}

// remove removes what the policy says, and updates the Node's list.
func (c *ImageCollector) remove(ctx context.Context, p image.GCPolicy) image.Collected {
	c.mu.Lock()
	defer c.mu.Unlock()
	done, err := c.Images.Collect(ctx, p, c.users, c.disk)
	if ctx.Err() != nil {
		return done
	}
	if len(done.Removed) > 0 {
		c.Logger.Info("removed images that no pod uses", "images", done.Removed, "freed", done.Freed)
	}
	if err != nil {
		c.Logger.Warn("cannot collect unused images", "error", err)
		c.Node.Tell(ctx, corev1.EventTypeWarning, "ImageGCFailed", err.Error())
	}
	if err := c.show(ctx); err != nil && ctx.Err() == nil {
		c.Logger.Warn("cannot show images in the status of the node", "error", err)
	}
	return done
}

// shortage remembers that the disk was too full.
type shortage struct {
	inARow int       // successive collections after which the disk was still too full
	told   time.Time // when an event last said so
}

// reasons returns the reasons of the events that report this, as a kubelet has them: the second one from the second
// time in a row. If the disk is full of other things than images, this happens every time, with other figures; events
// then repeat it only as often as events expire.
func (s *shortage) reasons(done image.Collected, now time.Time, forgotten time.Duration) []string {
	if !done.Short() {
		*s = shortage{}
		return nil
	}
	s.inARow++
	if s.inARow > 2 && len(done.Removed) == 0 && now.Sub(s.told) < forgotten {
		return nil
	}
	s.told = now
	if s.inARow == 1 {
		return []string{"FreeDiskSpaceFailed"}
	}
	return []string{"FreeDiskSpaceFailed", "ImageGCFailed"}
}

func (c *ImageCollector) disk() (image.Disk, error) { return imageDisk(c.Root) }

// users returns the images of all pods that have not ended, whether or not their containers have been started.
func (c *ImageCollector) users(context.Context) (map[string]bool, error) {
	used := map[string]bool{}
	var failed error
	err := c.Store.View(func(s *store.Snapshot) error {
		s.Range(objects.Pods+"/", "", func(o store.Object) bool {
			p := &corev1.Pod{}
			if failed = scheme.DecodePart(o.Value, objects.PodImages, p); failed != nil {
				return false
			}
			if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
				return true
			}
			addImages(used, &p.Spec)
			return true
		})
		return failed
	})
	return used, err
}

// Prune removes images that no pod uses and nothing waits to use, or only says which those are (image.Images.Prune).
func (c *ImageCollector) Prune(ctx context.Context, all, dryRun bool) (runtime.Pruned, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	done, err := c.Images.Prune(ctx, c.wanted, all, dryRun)
	if dryRun || err != nil {
		return done, err
	}
	if err := c.show(ctx); err != nil && ctx.Err() == nil {
		c.Logger.Warn("cannot show images in the status of the node", "error", err)
	}
	return done, nil
}

// wanted returns the images of pods that have not ended, and those that Jobs which have not finished and CronJobs have in their templates.
func (c *ImageCollector) wanted(ctx context.Context) (map[string]bool, error) {
	used, err := c.users(ctx)
	if err != nil {
		return nil, err
	}
	var failed error
	err = c.Store.View(func(s *store.Snapshot) error {
		s.Range(objects.Jobs+"/", "", func(o store.Object) bool {
			j := &batchv1.Job{}
			if failed = scheme.DecodePart(o.Value, objects.JobImages, j); failed == nil && !objects.Finished(j) {
				addImages(used, &j.Spec.Template.Spec)
			}
			return failed == nil
		})
		if failed != nil {
			return failed
		}
		s.Range(objects.CronJobs+"/", "", func(o store.Object) bool {
			cj := &batchv1.CronJob{}
			if failed = scheme.DecodePart(o.Value, objects.CronJobImages, cj); failed == nil {
				addImages(used, &cj.Spec.JobTemplate.Spec.Template.Spec)
			}
			return failed == nil
		})
		return failed
	})
	return used, err
}

// addImages adds the images that a pod names.
func addImages(used map[string]bool, spec *corev1.PodSpec) {
	for ref := range objects.Images(spec) {
		if name, err := image.Normalize(ref); err == nil {
			used[name] = true
		}
	}
}

// show updates the images in the Node's status (NodeStatus.Images).
func (c *ImageCollector) show(ctx context.Context) error {
	list, err := c.Images.List(ctx)
	if err != nil {
		return err
	}
	return c.Node.Update(ctx, func(n *corev1.Node) { n.Status.Images = nodeImages(list) })
}

// nodeImages returns images as a Node's status lists them: one entry for each content, with all its names, the largest
// first.
func nodeImages(list []runtime.Image) (shown []corev1.ContainerImage) {
	at := map[string]int{}
	for _, img := range list {
		n, ok := at[img.Digest]
		if !ok {
			n = len(shown)
			at[img.Digest] = n
			shown = append(shown, corev1.ContainerImage{SizeBytes: img.Size})
		}
		shown[n].Names = append(shown[n].Names, img.Name)
	}
	for i := range shown {
		slices.Sort(shown[i].Names)
	}
	slices.SortFunc(shown, func(a, b corev1.ContainerImage) int {
		return cmp.Or(cmp.Compare(b.SizeBytes, a.SizeBytes), cmp.Compare(a.Names[0], b.Names[0]))
	})
	return shown[:min(len(shown), nodeStatusMaxImages)]
}
