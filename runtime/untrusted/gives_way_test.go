package untrusted

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestRemovingGivesWay(t *testing.T) {
	const files = 1000
	tree := filepath.Join(t.TempDir(), "tree")
	for n := range files {
		if err := os.MkdirAll(filepath.Join(tree, fmt.Sprint(n)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	was, ways := giveWay, 0
	defer func() { giveWay = was }()
	giveWay = func() { ways++ }
	if err := Remove(t.Context(), tree); err != nil {
		t.Fatal(err)
	}
	if ways < files {
		t.Errorf("%d files were removed, and others let pass %d times", files, ways)
	}
}
