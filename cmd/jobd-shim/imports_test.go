package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestShimStaysSmall holds against what would make each shard several times as large: the types of the API, which even one
// helper brings along.
func TestShimStaysSmall(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for imported := range strings.Lines(string(out)) {
		for _, large := range []string{"k8s.io/", "google.golang.org/", "github.com/containerd/containerd/"} {
			if strings.HasPrefix(imported, large) {
				t.Errorf("the shim imports %s", imported)
			}
		}
	}
}
