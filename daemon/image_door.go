package daemon

import (
	"context"

	"github.com/jobd/jobd/daemon/disk"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/image"
)

// imageDoor are the images as clients of the API find them: what nothing needs only the collector knows.
type imageDoor struct {
	*image.Images
	collector *disk.ImageCollector
}

// Prune implements server.Images.
func (d imageDoor) Prune(ctx context.Context, all, dryRun bool) (runtime.Pruned, error) {
	return d.collector.Prune(ctx, all, dryRun)
}
