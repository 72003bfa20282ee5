package main

import (
	"strings"
	"testing"
)

// A forwarder finds the daemon where jobctl does.
func TestSocketOfAForwarder(t *testing.T) {
	for variable, want := range map[string]string{"": "/run/jobd/jobd.sock", "/a/s": "/a/s"} {
		t.Setenv("JOBD_SOCKET", variable)
		if got := newForwardCommand().Flags().Lookup("socket").DefValue; got != want {
			t.Errorf("$JOBD_SOCKET %q: %q, want %q", variable, got, want)
		}
	}
	t.Setenv("JOBD_SOCKET", "ssh://lab")
	cmd := newForwardCommand()
	cmd.SetArgs([]string{"--cluster", "prod"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "on another machine") {
		t.Errorf("with the socket of another machine: %v", err)
	}
}
