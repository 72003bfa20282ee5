package e2e

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jobd/jobd/testdata/docker"
	"github.com/jobd/jobd/testdata/images"
)

// catJob is a Job that prints the content of its image.
func catJob(name, image, policy string) string {
	return strings.Replace(jobOf(name, "cat /content"), `image: "busybox:1.36"`, fmt.Sprintf("image: %q, imagePullPolicy: %s", image, policy), 1)
}

// What Docker has is used without a registry, and anew once the tag means another image there; jobctl imports from it too.
func TestLocalImages(t *testing.T) {
	t.Parallel()
	needContainers(t)
	has := docker.Start(t)
	has.Tag("trainer:1", busyboxWith(t, "first"))
	d := start(t, "--network", "none", "--local-images", "docker="+has.Socket)
	run := func(name, image, want, event string) {
		t.Helper()
		d.apply(catJob(name, image, "IfNotPresent"))
		d.complete(name)
		if out := d.jobctl("logs", "jobs/"+name); strings.TrimSpace(out) != want {
			t.Errorf("%s prints %q, want %q", name, out, want)
		}
		d.eventually("an event says where the image is from", func() error {
			if out := d.jobctl("events"); !strings.Contains(out, event) {
				return fmt.Errorf("no %q in\n%s", event, out)
			}
			return nil
		})
	}
	run("one", "trainer:1", "first", `Image "trainer:1" taken from docker in`)
	run("same", "trainer:1", "first", `Container image "trainer:1" already present on machine`)
	has.Tag("trainer:1", busyboxWith(t, "second"))
	run("changed", "trainer:1", "second", `Image "trainer:1" taken from docker in`)
	d.kill()
	d.serve()
	run("restarted", "trainer:1", "second", `Container image "trainer:1" already present on machine`)

	// Never looks only at what jobd has.
	has.Tag("unseen:1", busyboxWith(t, "unseen"))
	d.apply(catJob("never", "unseen:1", "Never"))
	d.eventually("why says so", func() error {
		if out := d.jobctl("why", "jobs/never"); !strings.Contains(out, "imagePullPolicy is Never") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	d.jobctl("delete", "job", "never")

	// What cannot be taken is told by whom.
	d.apply(catJob("nobody", "127.0.0.1:1/none:1", "IfNotPresent"))
	d.eventually("why says what the registry says", func() error {
		if out := d.jobctl("why", "jobs/nobody"); !strings.Contains(out, "pull 127.0.0.1:1/none:1") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	d.jobctl("delete", "job", "nobody")

	// jobctl asks the Docker of whoever runs it.
	has.Tag("mine:2", busyboxWith(t, "mine"))
	import_ := func(from string, env ...string) (string, int) {
		cmd := d.jobctlWith("image", "import", from)
		cmd.Env = append(cmd.Env, env...)
		out, said, code := exitOf(t, cmd, "")
		return out + said, code
	}
	here := "DOCKER_HOST=unix://" + has.Socket
	if out, code := import_("docker://mine:2", here); code != 0 || !strings.HasPrefix(out, "imported docker.io/library/mine:2 (") {
		t.Errorf("exit code %d: %s", code, out)
	}
	run("imported", "mine:2", "mine", `Container image "mine:2" already present on machine`)
	for from, want := range map[string]string{
		"docker://none:1": "error: docker has no image none:1",
		"docker://":       "error: name an image: docker://IMAGE",
		"docker://NONE":   "error: image name \"NONE\"",
	} {
		if out, code := import_(from, here); code != 1 || !strings.HasPrefix(out, want) || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: exit code %d: %s", from, code, out)
		}
	}
	if out, code := import_("docker://mine:2", "DOCKER_HOST=unix:///nowhere", "PATH=/nowhere"); code != 1 ||
		!strings.Contains(out, "docker does not run here: nothing listens at /nowhere") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// A real podman gives its images, by its service and by its program, under the names that it shows and those that pods have for them.
func TestImagesOfPodman(t *testing.T) {
	t.Parallel()
	needContainers(t)
	if _, err := exec.LookPath("podman"); err != nil {
		t.Skip("needs podman")
	}
	dir, err := os.MkdirTemp("/var/tmp", "podman")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	storage := filepath.Join(dir, "storage.conf")
	settings := fmt.Appendf(nil, "[storage]\ndriver = \"vfs\"\ngraphroot = %q\nrunroot = %q\n", dir+"/root", dir+"/run")
	if err := os.WriteFile(storage, settings, 0o644); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "CONTAINERS_STORAGE_CONF="+storage)
	podman := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "podman", args...)
		cmd.Env = env
		return cmd
	}
	load := func(content string) {
		t.Helper()
		archive := &bytes.Buffer{}
		if err := images.WriteDocker(archive, busyboxWith(t, content).(images.Image).As("localhost/built:1")); err != nil {
			t.Fatal(err)
		}
		if _, said, code := exitOf(t, podman("load"), archive.String()); code != 0 {
			t.Skipf("podman does not work here: %s", said)
		}
	}
	load("first")
	socket := filepath.Join(dir, "s")
	service := podman("system", "service", "--time", "0", "unix://"+socket)
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = service.Process.Kill(); _ = service.Wait() })
	d := start(t, "--network", "none", "--local-images", "podman="+socket)
	d.eventually("podman listens", func() error {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err
	})
	run := func(name, image, want string) {
		t.Helper()
		d.apply(catJob(name, image, "IfNotPresent"))
		d.complete(name)
		if out := d.jobctl("logs", "jobs/"+name); strings.TrimSpace(out) != want {
			t.Errorf("%s prints %q, want %q", name, out, want)
		}
	}
	run("short", "built:1", "first")
	run("full", "localhost/built:1", "first")
	load("second")
	run("changed", "built:1", "second")

	for rule, more := range map[string]string{"by its service": "CONTAINER_HOST=unix://" + socket, "by its program": "JOBD_E2E_NO_SOCKET=1"} {
		d.jobctl("image", "remove", "built:1", "localhost/built:1")
		cmd := d.jobctlWith("image", "import", "podman://built:1")
		cmd.Env = append(cmd.Env, "CONTAINERS_STORAGE_CONF="+storage, more)
		out, said, code := exitOf(t, cmd, "")
		if code != 0 || !strings.Contains(out, "imported docker.io/library/built:1 (") || !strings.Contains(out, "imported localhost/built:1 (") {
			t.Errorf("%s: exit code %d\n%s%s", rule, code, out, said)
		}
	}
}
