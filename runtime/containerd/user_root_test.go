package containerd

import (
	"testing"
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
