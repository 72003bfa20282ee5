package containerd

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime"
)

// A container owns its standard streams, which are the host's own /dev/null if nothing else is put in their places.
func TestNobodySpoilsTheHostsDevNull(t *testing.T) {
	owned := func() string {
		info, err := os.Stat(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		s := info.Sys().(*syscall.Stat_t)
		return fmt.Sprintf("%v of %d:%d", info.Mode(), s.Uid, s.Gid)
	}
	before := owned()
	t.Cleanup(func() {
		_ = os.Chown(os.DevNull, 0, 0)
		_ = os.Chmod(os.DevNull, 0o666)
	})
	const spoil = "for file in /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /dev/null /proc/kcore /proc/keys /proc/timer_list; do " +
		"chown 7:7 $file; chmod 0 $file; done 2>&1 | cat >/empty"
	ociRuntimes(t, func(t *testing.T, r *rig) {
		for _, user := range []int64{0, 1000} {
			for _, terminal := range []bool{false, true} {
				name := fmt.Sprintf("u%d-%t", user, terminal)
				t.Run(name, func(t *testing.T) {
					p := pod(name, spoil+"; sleep 1000")
					p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: &user}
					p.Spec.Containers[0].TTY = terminal
					c := r.container(t, p, "main")
					r.start(t, c)
					for _, e := range []runtime.ExecRequest{{}, {TTY: true}, {Left: make(chan struct{})}, {Stdin: &bytes.Buffer{}}} {
						var out bytes.Buffer
						e.Args, e.Stdout = []string{"sh", "-c", spoil + "; echo tried"}, &out
						if code, err := r.Exec(t.Context(), c.ID, e); err != nil || code != 0 || !bytes.Contains(out.Bytes(), []byte("tried")) {
							t.Errorf("exec %+v: %d, %v: %s", e, code, err, out.String())
						}
					}
					if now := owned(); now != before {
						t.Errorf("%s is %s, was %s", os.DevNull, now, before)
					}
				})
			}
		}
	})
}
