package worker

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A pod without an address is reached from inside its own network.
func TestTargetInItsOwnNetwork(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root and no -short")
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("needs busybox")
	}
	cmd := exec.Command(busybox, "sh", "-c", "busybox ip link set lo up && exec busybox httpd -f -p 127.0.0.1:8099 -h /nowhere")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	cmd.Dir = t.TempDir()
	cmd.Args[3] = strings.Replace(cmd.Args[3], "/nowhere", cmd.Dir, 1)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	to := target{pid: cmd.Process.Pid, container: &corev1.Container{}}
	open := &corev1.TCPSocketAction{Port: intstr.FromInt32(8099)}
	for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if err = to.tcp(t.Context(), open); err == nil {
			break
		}
		if time.Now().After(late) {
			t.Fatal(err)
		}
	}
	if _, err := to.httpProbe(t.Context(), &corev1.HTTPGetAction{Port: open.Port, Path: "/none"}); err == nil ||
		!strings.Contains(err.Error(), "statuscode: 404") {
		t.Errorf("got %v", err)
	}
	if err := (target{ip: "127.0.0.1", container: to.container}).tcp(t.Context(), open); err == nil {
		t.Error("it can be reached from the host's network")
	}
	if err := (target{pid: 1 << 30, container: to.container}).tcp(t.Context(), open); err == nil {
		t.Error("a process that is gone has no network")
	}
	if err := (target{id: "another-container", pid: to.pid, container: to.container}).tcp(t.Context(), open); !errdefs.IsNotFound(err) {
		t.Errorf("a process that has the number of another one that is gone: %v", err)
	}
}
