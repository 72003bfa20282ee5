package containerd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jobd/jobd/internal/files"
	"github.com/jobd/jobd/internal/layout"
)

func TestMissingOCIRuntimeNamesThePackage(t *testing.T) {
	needRoot(t)
	r := &rig{}
	r.configure(t, t.TempDir(), t.TempDir(), "no-such-runtime")
	_, err := Open(context.Background(), r.config)
	if err == nil || !strings.Contains(err.Error(), "apt install crun") {
		t.Errorf("got %v", err)
	}
	if err := Clean(context.Background(), r.config.Root, r.config.State); err != nil {
		t.Error(err)
	}
}

// An OCI runtime may have failed only because the host was too busy, for instance: it is tried again at the next start.
func TestAnOCIRuntimeThatFailedIsTriedAgain(t *testing.T) {
	needRoot(t)
	path, err := exec.LookPath("crun")
	if err != nil {
		t.Skip("needs crun")
	}
	r, dir := &rig{}, t.TempDir()
	script, broken := filepath.Join(dir, "crun"), filepath.Join(dir, "broken")
	for file, content := range map[string]string{
		script: fmt.Sprintf("#!/bin/sh\n[ \"$1\" = --version ] || [ ! -e %s ] || exit 1\nexec %s \"$@\"\n", broken, path),
		broken: "",
	} {
		if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.configure(t, filepath.Join(dir, "root"), filepath.Join(dir, "state"), script)
	t.Cleanup(func() {
		if err := Clean(context.Background(), r.config.Root, r.config.State); err != nil {
			t.Error(err)
		}
	})
	if _, err := Open(context.Background(), r.config); err == nil || !strings.Contains(err.Error(), "does not work here") {
		t.Fatalf("with one that fails: %v", err)
	}
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	r.open(t)
	r.Close()
}

// Others may have filled the disk when a new jobd, or a new kernel, starts.
func TestAnOCIRuntimeNeedsNoDisk(t *testing.T) {
	needRoot(t)
	if _, err := exec.LookPath("crun"); err != nil {
		t.Skip("needs crun")
	}
	r, dir := &rig{}, t.TempDir()
	r.configure(t, filepath.Join(dir, "root"), filepath.Join(dir, "state"), "crun")
	t.Cleanup(func() {
		if err := Clean(context.Background(), r.config.Root, r.config.State); err != nil {
			t.Error(err)
		}
	})
	if err := os.MkdirAll(layout.Root(r.config.Root).OCIRuntimes()+files.Unfinished, 0o700); err != nil { // so nothing can be written
		t.Fatal(err)
	}
	r.open(t)
	r.Close()
}
