package submit

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/distribution/reference"
	"k8s.io/client-go/kubernetes"

	"github.com/jobd/jobd/api/images"
	"github.com/jobd/jobd/cmd/internal/progress"
)

// ImportArchive sends an archive of images to jobd: a file, or - for stdin. progress is called with the bytes that were
// sent and their number, which is 0 if it is not known.
func ImportArchive(
	ctx context.Context, client kubernetes.Interface, file string, stdin io.Reader, progress func(sent, total int64),
) ([]images.Image, error) {
	archive, total := stdin, int64(0)
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			total = info.Size()
		}
		archive = f
	}
	answer := client.Discovery().RESTClient().Post().AbsPath(images.Path).Param("op", "import").
		Body(&counter{Reader: archive, total: total, progress: progress}).Do(ctx)
	raw, err := answer.Raw()
	if said := answer.Error(); said != nil { // Raw's error does not have the server's words
		err = said
	}
	if err != nil {
		return nil, fmt.Errorf("import %s: %w", file, err)
	}
	var list images.List
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("import %s: the daemon's answer: %w", file, err)
	}
	return list.Items, nil
}

// counter counts what is read.
type counter struct {
	io.Reader
	sent     atomic.Int64
	total    int64
	progress func(sent, total int64)
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.progress(c.sent.Add(int64(n)), c.total)
	return n, err
}

// transfers returns how far the images are that some containers wait for; false if the server does not say.
func transfers(ctx context.Context, client kubernetes.Interface, waiting []string) ([]progress.Transfer, bool) {
	raw, err := client.Discovery().RESTClient().Get().AbsPath(images.Path).Param("op", "transfers").Do(ctx).Raw()
	var all images.Transfers
	if err != nil || json.Unmarshal(raw, &all) != nil {
		return nil, false
	}
	var full []string
	for _, name := range waiting {
		if ref, err := reference.ParseDockerRef(name); err == nil {
			full = append(full, ref.String())
		}
	}
	list := []progress.Transfer{}
	for _, t := range all.Items {
		if t.Import || !slices.Contains(full, t.Name) {
			continue
		}
		one := progress.Transfer{
			Name: t.Name, State: "pulling", Bytes: t.Bytes, Total: t.TotalBytes, Layers: t.Layers, TotalLayers: t.TotalLayers,
		}
		if t.TotalLayers > 0 && t.Layers == t.TotalLayers {
			one.State = "unpacking"
		}
		list = append(list, one)
	}
	return list, true
}

// imagesEvery is how often the server is asked how far images are that containers wait for.
const imagesEvery = 300 * time.Millisecond

// followImages begins to show how far images are while containers wait for some, if the server is one that knows.
func (r *following) followImages() {
	if r.imagesAsked || len(r.model.Waiting()) == 0 {
		return
	}
	r.imagesAsked = true
	r.wait.Go(func() {
		ticker := time.NewTicker(imagesEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C: // most images are there, and nothing has to be asked
			case <-r.ctx.Done():
				return
			}
			waiting := r.model.Waiting()
			list, known := []progress.Transfer(nil), true
			if len(waiting) > 0 {
				list, known = transfers(r.ctx, r.Client.Kubernetes, waiting)
			}
			if !known {
				return
			}
			r.send(update{is: aboutImages, images: list, over: len(waiting) == 0})
			if len(waiting) == 0 {
				return
			}
		}
	})
}
