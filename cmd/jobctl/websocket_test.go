package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/store"
)

// containers run cat, whatever they are asked to run.
type containers struct{}

func (containers) Exec(_ context.Context, _ *corev1.Pod, _ string, e runtime.ExecRequest) (int, error) {
	fmt.Fprintln(e.Stderr, e.Args)
	_, err := io.Copy(e.Stdout, e.Stdin)
	return 7, err
}

func (containers) Attach(_ context.Context, pod *corev1.Pod, container string, a runtime.AttachRequest) error {
	fmt.Fprintln(a.Stdout, pod.Name, container)
	_, err := io.Copy(a.Stdout, a.Stdin)
	return err
}

func (containers) Dial(context.Context, *corev1.Pod, uint16) (net.Conn, error) {
	return nil, os.ErrNotExist
}

func (containers) DialAddress(context.Context, *corev1.Pod, netip.AddrPort) (net.Conn, error) {
	return nil, os.ErrNotExist
}

// What kubectl would dial by itself goes to the socket, and the server's messages come through.
func TestReachingIntoContainersOnTheSocket(t *testing.T) {
	for _, websockets := range []string{"", "false"} { // kubectl's own switch to SPDY has no effect
		t.Run("switch="+websockets, func(t *testing.T) {
			d := startDaemon(t)
			jobctl := func(in string, args ...string) (string, int) {
				cmd := exec.Command(os.Args[0], args...)
				cmd.Env = append(os.Environ(), "JOBCTL_TEST_RUN=1", "HOME="+d.home, "JOBD_SOCKET="+d.socket,
					"KUBECTL_REMOTE_COMMAND_WEBSOCKETS="+websockets, "KUBECTL_PORT_FORWARD_WEBSOCKETS="+websockets)
				return run(t, cmd, in)
			}
			pod := `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i, stdin: true}]}}`
			if out, code := jobctl(pod, "create", "-f", "-"); code != 0 {
				t.Fatal(out)
			}
			d.bind(t, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}, corev1.PodPending)
			if out, code := jobctl("", "exec", "p", "--", "true"); code != 1 || !strings.Contains(out, `container "c" in pod "p" is not running`) {
				t.Errorf("exec before it runs: %d, %s", code, out)
			}
			if out, code := jobctl("", "port-forward", "p", ":80"); code != 1 || !strings.Contains(out, "pod is not running") {
				t.Errorf("port-forward before it runs: %d, %s", code, out)
			}
			d.bind(t, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, corev1.PodRunning)
			if out, code := jobctl("words\n", "exec", "-i", "p", "--", "cat", "-"); code != 7 ||
				!strings.Contains(out, "[cat -]\n") || !strings.Contains(out, "words\n") {
				t.Errorf("exec: %d, %s", code, out)
			}
			if out, code := jobctl("words\n", "attach", "-q", "-i", "p"); code != 0 || out != "p c\nwords\n" {
				t.Errorf("attach: %d, %s", code, out)
			}
		})
	}
}

// bind writes the part of a pod's status that only the loop may write.
func (d *daemon) bind(t *testing.T, state corev1.ContainerState, phase corev1.PodPhase) {
	t.Helper()
	key := store.Key("pods", "default", "p")
	if err := d.store.Update(t.Context(), func(tx *store.Tx) error {
		o, _ := tx.Get(key)
		pod := &corev1.Pod{}
		if err := scheme.Decode(o.Value, pod); err != nil {
			return err
		}
		pod.Spec.NodeName, pod.Status.Phase = "node", phase
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: state}}
		value, err := scheme.Encode(pod)
		if err != nil {
			return err
		}
		tx.Put(store.Object{Key: key, UID: o.UID, Owners: o.Owners, Value: value})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
