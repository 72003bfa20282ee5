package images

import (
	"io/fs"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const specRegistry = "registry.k8s.io/e2e-test-images/"

// Specs returns the images that Kubernetes' own node and storage specs ask for, from programs of this machine and from two
// that were built from Kubernetes' sources: test/images/agnhost, and test/images/nonewprivs. sources is the directory of
// Kubernetes' sources.
func Specs(sources, agnhost, nonewprivs string) ([]Image, error) {
	var all []Image
	var failed error
	add := func(t *Tree, c v1.Config, names ...string) {
		c.Env = append(c.Env, searchPath)
		img, err := New(t, c, names...)
		if failed == nil {
			failed = err
		}
		all = append(all, img)
	}
	plain := func() *Tree {
		t := merged()
		// Debian's busybox takes variables like data-1 out of the environment, unlike the shell of the images that are
		// stood in for.
		t.Program("/bin/bash")
		t.Link("/usr/bin/sh", "bash")
		t.Busybox("/usr/bin")
		return t
	}

	t := plain()
	// The programs that the specs call beside agnhost itself, in the versions of this machine.
	for _, program := range []string{"/usr/bin/curl", "/usr/bin/nsenter"} {
		t.Program(program)
	}
	t.Place("/agnhost", 0o755, agnhost)
	t.Link("/agnhost-2", "agnhost")
	t.Dir("/uploads", 0o755)
	for _, name := range []string{"localhost.crt", "localhost.key"} {
		t.Place("/"+name, 0o644, filepath.Join(sources, "test/images/agnhost/porter", name))
	}
	t.Text("/etc/passwd", 0o644, "root:x:0:0:root:/root:/bin/sh\nuser-defined-in-image:x:1000:1000::/home:/bin/sh\n")
	t.Text("/etc/group", 0o644, "root:x:0:\nuser-defined-in-image:x:1000:\n"+
		"group-defined-in-image:x:50000:user-defined-in-image\n")
	add(t, v1.Config{Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}},
		specRegistry+"agnhost:2.66.1", specRegistry+"agnhost:2.55")

	t = NewTree()
	t.Place("/agnhost", 0o755, agnhost)
	add(t, v1.Config{Entrypoint: []string{"/agnhost", "pause"}}, "registry.k8s.io/pause:3.10.2")

	add(plain(), v1.Config{Cmd: []string{"sh"}}, specRegistry+"busybox:1.37.0-2")
	add(plain(), v1.Config{Cmd: []string{"sh"}, User: "1234"}, specRegistry+"nonroot:1.5")

	t = plain()
	t.Text("/usr/share/nginx/html/index.html", 0o644, "<title>Welcome to nginx!</title>\n")
	add(t, v1.Config{Cmd: []string{"httpd", "-f", "-p", "80", "-h", "/usr/share/nginx/html"}},
		specRegistry+"nginx:1.27.0-2", specRegistry+"nginx:1.28.0-2")

	t = plain()
	t.Program("/usr/bin/hostname")
	add(t, v1.Config{Cmd: []string{"sh"}}, specRegistry+"glibc-dns-testing:2.1.1")

	// An image for a volume, and what the spec reads in it.
	t = plain()
	t.Place("/data.json", 0o644, filepath.Join(sources, "test/images/kitten/html/data.json"))
	t.Text("/etc/os-release", 0o644, "NAME=\"Alpine Linux\"\n")
	add(t, v1.Config{Cmd: []string{"sh"}}, specRegistry+"kitten:1.8")

	t = plain()
	t.Program("/usr/bin/ipcs")
	add(t, v1.Config{Cmd: []string{"sh"}}, specRegistry+"ipc-utils:1.4")

	t = plain()
	t.Place("/usr/local/bin/nnp", 0o755|fs.ModeSetuid, nonewprivs)
	add(t, v1.Config{Cmd: []string{"nnp"}}, specRegistry+"nonewprivs:1.4")
	return all, failed
}
