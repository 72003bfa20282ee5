package nvidia

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jobd/jobd/runtime/nvidia/nvidiatest"
)

func TestAsk(t *testing.T) {
	smi := nvidiatest.New(t, 2)
	a := NewAsker(smi.Path)
	r, err := a.Ask(t.Context())
	if err != nil || len(r.GPUs) != 2 || r.At.IsZero() || r.GPUs[1].UUID != nvidiatest.UUID(1) {
		t.Errorf("%+v %v", r, err)
	}
	for code, says := range map[int]string{
		9:  "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.",
		18: "Failed to initialize NVML: Driver/library version mismatch",
		15: "Unable to determine the device handle for GPU0000:01:00.0: GPU is lost.  Reboot the system to recover this GPU",
	} {
		smi.Fail(code, "\n"+says+"\nNVML library version: 580.159\n")
		if _, err := a.Ask(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("exit code %d: %v", code, err)
		}
	}
	smi.Fail(0, "No devices were found\n")
	if r, err := a.Ask(t.Context()); err == nil {
		t.Errorf("without cards: %+v", r)
	}
	missing := NewAsker(smi.Path + ".missing")
	for range 200 { // who has an answer may ask again
		if _, err := missing.Ask(t.Context()); err == nil || errors.Is(err, ErrHangs) {
			t.Fatalf("a program that is missing: %v", err)
		}
	}
}

// TestAskHangs: who asks waits no longer than they want, and a program that hangs is killed.
func TestAskHangs(t *testing.T) {
	smi := nvidiatest.New(t, 1)
	smi.Hang(true)
	a := NewAsker(smi.Path)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := a.Ask(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	smi.Hang(false)
	if _, err := a.Ask(t.Context()); err != nil {
		t.Errorf("after it was killed: %v", err)
	}
	a.turn <- struct{}{} // one that does not even end when it is killed
	if _, err := a.Ask(t.Context()); !errors.Is(err, ErrHangs) {
		t.Errorf("beside one that hangs: %v", err)
	}
}
