package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// blockClaim is a claim of mode Block.
func blockClaim(name string) string {
	return fmt.Sprintf(`
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %s}
spec: {accessModes: [ReadWriteMany], volumeMode: Block, resources: {requests: {storage: 8Mi}}}
`, name)
}

// withBlock gives the container of a pod that attackerPod has made a claim of mode Block at /dev/blk.
func withBlock(pod, claim, source, spec string) string {
	return strings.Replace(strings.Replace(pod, "spec:\n", "spec:\n  hostUsers: true\n"+spec+
		"  volumes: [{name: v, persistentVolumeClaim: {claimName: "+claim+source+"}}]\n", 1),
		"containers: [{", "containers: [{volumeDevices: [{name: v, devicePath: /dev/blk}], ", 1)
}

// TestBlockClaimIsNoLoopDevice: whoever has a claim of mode Block cannot let go of the file in it, nor exchange or move it, as
// any user, with any profile, by any way to make the request, and be it for reading only.
func TestBlockClaimIsNoLoopDevice(t *testing.T) {
	t.Parallel()
	path := attacker(t)
	want := attemptsOf(t, path, "-device", "/dev/blk")
	eachRuntime(t, func(t *testing.T, d *daemon) {
		if why := loops(d); why != "" {
			t.Skip("needs " + why)
		}
		d.importAttacker(path)
		const restricted = ", securityContext: {runAsUser: 1000, runAsGroup: 0, allowPrivilegeEscalation: false, capabilities: " +
			"{drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}"
		for name, tc := range map[string]struct{ more, source, spec string }{
			"root":        {},
			"restricted":  {more: restricted},
			"unconfined":  {more: ", securityContext: {seccompProfile: {type: Unconfined}}"},
			"read-only":   {source: ", readOnly: true"},
			"with-group":  {more: ", securityContext: {runAsUser: 1000}", spec: "  securityContext: {fsGroup: 1234}\n"},
			"group-alone": {more: ", securityContext: {runAsGroup: 1234}", spec: "  securityContext: {fsGroup: 1234}\n"},
		} {
			d.apply(blockClaim(name) + withBlock(attackerPod("run-"+name, tc.more, "/attacker", "-device", "/dev/blk"), name, tc.source, tc.spec) +
				withBlock(attackerPod("exec-"+name, tc.more, "/attacker", "sleep"), name, tc.source, tc.spec))
			check := func(t *testing.T, said string) {
				t.Helper()
				var made []string
				for _, m := range attemptLine.FindAllStringSubmatch(said, -1) {
					made = append(made, m[2])
				}
				if slices.Sort(made); !slices.Equal(made, want) {
					t.Errorf("it made %d attempts of %d", len(made), len(want))
				}
				for line := range strings.Lines(said) {
					if !strings.HasPrefix(line, "held ") {
						t.Error(strings.TrimSpace(line))
					}
				}
			}
			t.Run(name, func(t *testing.T) {
				d.podUntil("run-"+name, "has ended", ended)
				check(t, d.jobctl("logs", "run-"+name))
				d.podUntil("exec-"+name, "runs", runs)
				said, _ := d.try("jobctl", nil, "exec", "exec-"+name, "--", "/attacker", "-device", "/dev/blk")
				check(t, said)
				// It is a device to read and write, for whom the claim is.
				use := "echo words | dd of=/dev/blk conv=fsync 2>/dev/null; head -c 5 /dev/blk"
				if tc.source != "" {
					use = "echo words | dd of=/dev/blk 2>/dev/null || echo words"
				}
				if got := d.jobctl("exec", "exec-"+name, "--", "sh", "-c", use); got != "words" && got != "words\n" {
					t.Errorf("it reads %q", got)
				}
			})
		}
		mode := func(pod string) string {
			return strings.TrimSpace(d.jobctl("exec", pod, "--", "stat", "-c", "%a %u %g", "/dev/blk"))
		}
		for pod, want := range map[string]string{
			"exec-root": "600 0 0", "exec-restricted": "600 1000 0", "exec-with-group": "660 1000 1234",
		} {
			if got := mode(pod); got != want {
				t.Errorf("%s: mode, owner and group are %s, want %s", pod, got, want)
			}
		}
		t.Run("in a container that was added", func(t *testing.T) {
			d.jobctl("patch", "pod", "exec-root", "--subresource=ephemeralcontainers", "-p", `{"spec": {"ephemeralContainers": [{"name": "e",
				"image": "docker.io/hostile/attacker:1", "command": ["/attacker", "-device", "/dev/blk"],
				"volumeDevices": [{"name": "v", "devicePath": "/dev/blk"}], "securityContext": {"seccompProfile": {"type": "Unconfined"}}}]}}`)
			d.podUntil("exec-root", "has a container that was added and has ended", func(p *corev1.Pod) bool {
				return len(p.Status.EphemeralContainerStatuses) == 1 && p.Status.EphemeralContainerStatuses[0].State.Terminated != nil
			})
			for line := range strings.Lines(d.jobctl("logs", "exec-root", "-c", "e")) {
				if !strings.HasPrefix(line, "held ") {
					t.Error(strings.TrimSpace(line))
				}
			}
		})
	})
}

// devicesOf returns the loop devices that show files of a daemon's volumes.
func (d *daemon) devicesOf() (devices []string) {
	for device, file := range loopDevices() {
		if strings.HasPrefix(file, d.root) {
			devices = append(devices, device)
		}
	}
	return devices
}

// TestDeviceStaysForItsPods: a number is never that of another file while a pod has a node of it, although the pod may make
// all requests, the daemon and its shards are killed, and the claim goes; and it goes with the pod.
func TestDeviceStaysForItsPods(t *testing.T) {
	t.Parallel()
	path := attacker(t)
	eachRuntime(t, func(t *testing.T, d *daemon) {
		if why := loops(d); why != "" {
			t.Skip("needs " + why)
		}
		d.importAttacker(path)
		const privileged = ", securityContext: {privileged: true}"
		d.apply(blockClaim("raw") + withBlock(attackerPod("first", privileged, "/attacker", "sleep"), "raw", "", "") +
			withBlock(attackerPod("second", privileged, "/attacker", "sleep"), "raw", "", ""))
		d.podUntil("first", "runs", runs)
		d.podUntil("second", "runs", runs)
		devices := d.devicesOf()
		if len(devices) != 1 {
			t.Fatalf("one claim has the devices %v", devices)
		}
		device := devices[0]
		file := loopDevices()[device]
		letGo := func(pod string) {
			t.Helper()
			said, _ := d.try("jobctl", nil, "exec", pod, "--", "/attacker", "-device", "/dev/blk", "to let go of a file")
			if !strings.Contains(said, "BROKEN to let go") {
				t.Errorf("a privileged container may not make the request, and proves nothing: %s", said)
			}
			if is := loopDevices()[device]; !strings.HasPrefix(is, file) {
				t.Errorf("%s shows %q after that", device, is)
			}
		}
		letGo("first")
		d.kill()
		d.serve()
		letGo("second")
		d.jobctl("delete", "pod", "second")
		letGo("first")

		// The claim goes with the pod that uses it, whatever becomes of its finalizers.
		d.jobctl("delete", "pvc/raw", "--wait=false")
		if _, err := d.CoreV1().PersistentVolumeClaims("default").Patch(t.Context(), "raw", types.MergePatchType,
			[]byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		letGo("first")

		d.kill()
		d.killShards()
		d.serve()
		d.jobctl("delete", "pod", "first", "--wait=false")
		d.eventually("the device goes with its last pod", func() error {
			if left := d.volumes(); len(left) > 0 || loopDevices()[device] != "" {
				return fmt.Errorf("left are %v, and %s shows %q", left, device, loopDevices()[device])
			}
			return nil
		})
	})
}

// TestDeviceOfTheHostStaysForItsPods: the same with a loop device that an administrator has made, and given out by a volume of
// the type local; his own `losetup -d` takes effect when the pod has ended.
func TestDeviceOfTheHostStaysForItsPods(t *testing.T) {
	t.Parallel()
	path := attacker(t)
	d := start(t)
	if why := loops(d); why != "" {
		t.Skip("needs " + why)
	}
	d.importAttacker(path)
	image := filepath.Join(t.TempDir(), "image")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 8<<20)); err != nil {
		t.Fatal(err)
	}
	device := losetup(t, image)
	d.apply(strings.Replace(blockClaim("host"), "volumeMode: Block", `storageClassName: "", volumeMode: Block`, 1) + `
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: host}
spec:
  accessModes: [ReadWriteMany]
  capacity: {storage: 8Mi}
  volumeMode: Block
  local: {path: ` + device + `}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}]}]}}
` + withBlock(attackerPod("user", ", securityContext: {privileged: true}", "/attacker", "sleep"), "host", "", ""))
	d.podUntil("user", "runs", runs)
	if said, _ := d.try("jobctl", nil, "exec", "user", "--", "/attacker", "-device", "/dev/blk", "to let go of a file"); !strings.Contains(said, "BROKEN") {
		t.Errorf("a privileged container may not make the request, and proves nothing: %s", said)
	}
	if is := loopDevices()[device]; is != image {
		t.Errorf("%s shows %q after that", device, is)
	}
	d.jobctl("delete", "pod", "user")
	d.eventually("the device is let go of", func() error {
		if is := loopDevices()[device]; is != "" {
			return fmt.Errorf("it shows %q", is)
		}
		return nil
	})
}

// losetup makes a loop device of the host, which is gone after the test.
func losetup(t *testing.T, image string) (device string) {
	t.Helper()
	for tries := 0; device == ""; tries++ {
		out, err := exec.Command("losetup", "-f", "--show", image).CombinedOutput()
		if err == nil {
			device = strings.TrimSpace(string(out))
		} else if tries == 100 { // other tests take devices too
			t.Fatalf("losetup: %v\n%s", err, out)
		}
	}
	t.Cleanup(func() {
		if loopDevices()[device] == image {
			if out, err := exec.Command("losetup", "-d", device).CombinedOutput(); err != nil {
				t.Errorf("losetup: %v\n%s", err, out)
			}
		}
	})
	return device
}
