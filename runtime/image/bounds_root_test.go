package image

import (
	"bytes"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/jobd/jobd/testdata/images"
	"github.com/jobd/jobd/testdata/registry"
)

// The config of an image is read into memory, by more than one, and decoded there.
func TestConfigThatIsTooLarge(t *testing.T) {
	i := newImages(t, Options{})
	with := func(label string, names ...string) images.Image {
		tree := images.NewTree()
		tree.Text("/content", 0o644, label[:1])
		img, err := images.New(tree, v1.Config{Cmd: []string{"/content"}, Labels: map[string]string{"l": label}}, names...)
		if err != nil {
			t.Fatal(err)
		}
		return img
	}
	refused := func(how string, err error) {
		t.Helper()
		if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "bytes, which is more than 4194304") {
			t.Errorf("%s: %v", how, err)
		}
	}
	large := strings.Repeat("large", 1<<20)
	r := registry.Start(t, registry.Options{})
	name, _ := r.Push(t, with(large), "large:1")
	_, err := i.Pull(t.Context(), name, nil)
	refused("pull", err)
	if n := registry.Count(r.Requests(), "GET", "/blobs/"); n > 0 {
		t.Errorf("%d blobs are fetched all the same", n)
	}
	for form, write := range map[string]func(*bytes.Buffer, ...images.Image) error{
		"Docker": func(b *bytes.Buffer, list ...images.Image) error { return images.WriteDocker(b, list...) },
		"OCI":    func(b *bytes.Buffer, list ...images.Image) error { return images.WriteOCI(b, list...) },
	} {
		var archive bytes.Buffer
		if err := write(&archive, with(large, "example.com/large:1")); err != nil {
			t.Fatal(err)
		}
		_, err = i.Import(t.Context(), &archive, "")
		refused("import of "+form, err)
	}
	name, _ = r.Push(t, with(large[:1<<20]), "fits:1")
	if _, err := i.Pull(t.Context(), name, nil); err != nil {
		t.Errorf("one of a megabyte: %v", err)
	}
}
