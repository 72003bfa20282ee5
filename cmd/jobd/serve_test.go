package main

import (
	"strings"
	"testing"

	"github.com/jobd/jobd/daemon"
)

// Whoever reads where jobd listens is not sent to the process that has its port.
func TestAnnounceAPortThatIsTaken(t *testing.T) {
	for waits, want := range map[bool]string{false: "(kubeconfig: /k)", true: "(not yet: another process has this port)"} {
		var out strings.Builder
		announce(&out, daemon.Serving{Listen: "127.0.0.1:6443", ListenWaits: waits, Kubeconfig: "/k"})
		if !strings.Contains(out.String(), "https://127.0.0.1:6443  "+want+"\n") {
			t.Errorf("waits %v: %s", waits, &out)
		}
	}
}
