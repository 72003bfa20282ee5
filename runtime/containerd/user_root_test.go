package containerd

import (
	"context"
	"fmt"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/jobd/jobd/runtime/image"
	"github.com/jobd/jobd/testdata/images"
)

func TestUserOfTheImageByName(t *testing.T) {
	r := newRig(t, "")
	// The cache is filled as if the image had files that name its users.
	p := pod("u1", "id -u; id -g")
	c := r.container(t, p, "main")
	r.passwd.images = map[string]userFiles{c.Image.ChainID: {
		passwd: []byte("app:x:77:78::/:/bin/sh\n"), group: []byte("app:x:78:\n"),
	}}
	c.Spec.Process.User.Username = "app"
	r.start(t, c)
	if r.wait(t, c.ID); output(t, c.LogPath) != "77\n78" {
		t.Errorf("log %q", output(t, c.LogPath))
	}
}

// The paths of so many layers are more than the kernel takes as the options of a mount.
func TestUserOfAnImageOfManyLayers(t *testing.T) {
	r := newRig(t, "")
	lowest := images.NewTree()
	lowest.Busybox("/bin")
	trees := []*images.Tree{lowest}
	for i := range 50 {
		tree := images.NewTree()
		tree.Text(fmt.Sprintf("/layer-%d", i), 0o644, "")
		tree.Text("/etc/passwd", 0o644, "app:x:77:78::/:/bin/sh\n")
		trees = append(trees, tree)
	}
	made, err := images.FromLayers(v1.Config{Cmd: []string{"sh"}}, []string{"docker.io/library/layers:1"}, trees...)
	if err != nil {
		t.Fatal(err)
	}
	list, err := image.New(r.Client(), image.Options{Snapshotter: r.Snapshotter()}).Import(context.Background(), made.Docker(), "")
	if err != nil {
		t.Fatal(err)
	}
	r.image = list[0]
	c := r.container(t, pod("u1", "id -u; id -g; ls -d /layer-* | wc -l"), "main")
	c.Spec.Process.User.Username = "app"
	r.start(t, c)
	if r.wait(t, c.ID); output(t, c.LogPath) != "77\n78\n50" {
		t.Errorf("log %q", output(t, c.LogPath))
	}
}
