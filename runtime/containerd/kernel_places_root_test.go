package containerd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/testdata/images"
)

// A volume to which a symlink leads does not take the place of /dev: there runc opens /dev/null for a container's output, masks files
// with it and looks for terminals, so that a symlink of that name leads it to any file of the kernel, writable (CVE-2025-31133,
// CVE-2025-52565). The name of the container's own domain stands for the host's core_pattern.
func TestVolumesDoNotTakeThePlaceOfDevices(t *testing.T) {
	const null = "/proc/sys/kernel/domainname"
	tree := images.NewTree()
	tree.Busybox("/bin")
	tree.Link("/linked", "/dev")
	tree.Link("/dev/null", null)
	config := v1.Config{Env: []string{"PATH=/bin"}}
	mounted := func(places ...string) []corev1.VolumeMount {
		var out []corev1.VolumeMount
		for _, at := range places {
			out = append(out, corev1.VolumeMount{Name: "v", MountPath: at})
		}
		return out
	}
	ociRuntimes(t, func(t *testing.T, r *rig) {
		for name, c := range map[string]struct {
			mounts   []corev1.VolumeMount
			declared map[string]struct{}
			refused  string // the start is
		}{
			"link-of-the-image":    {mounts: mounted("/linked")},
			"link-of-a-volume":     {mounts: mounted("/v", "/v/link"), refused: "mount /v/link: a symlink leads out of the volume at /v"},
			"declared-by-an-image": {declared: map[string]struct{}{"/linked": {}}},
		} {
			t.Run(name, func(t *testing.T) {
				config.Volumes = c.declared
				img, err := images.New(tree, config, "hostile:1")
				if err != nil {
					t.Fatal(err)
				}
				r.image = r.importImage(t, img)
				volume := corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
				for _, terminal := range []bool{false, true} {
					p := pod("u1", "for n in 0 1 2; do echo broken >&$n; done 2>/dev/termination-log; test -c /dev/null || exit 7; cat "+null+" >&2; sleep 0.1")
					p.UID = types.UID(fmt.Sprintf("%s-%t", name, terminal))
					p.Spec.Volumes = []corev1.Volume{volume}
					p.Spec.Containers[0].VolumeMounts, p.Spec.Containers[0].TTY = c.mounts, terminal
					status, log := r.run(t, p, func(spec *specs.Spec) {
						for _, m := range spec.Mounts {
							if len(c.mounts) > 0 && m.Destination == c.mounts[0].MountPath {
								fillAsDevices(t, m.Source, null)
							}
						}
					})
					if c.refused != "" {
						if !strings.Contains(status.StartError, c.refused) {
							t.Errorf("terminal %t: %+v", terminal, status)
						}
					} else if status.ExitCode != 0 || strings.Count(log, "broken") > 2 {
						t.Errorf("terminal %t: exit code %d: %q", terminal, status.ExitCode, log)
					}
				}
			})
		}
	})
}

// fillAsDevices makes a volume what may stand in the place of /dev, with a symlink instead of /dev/null.
func fillAsDevices(t *testing.T, dir, null string) {
	t.Helper()
	for link, to := range map[string]string{"null": null, "link": "/dev"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"pts", "shm", "mqueue"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
