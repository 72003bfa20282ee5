package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDocs runs the shell blocks of the pages in docs, those of a page one after the other, as a reader would: jobctl speaks to a
// jobd of the page's own.
func TestDocs(t *testing.T) {
	needContainers(t)
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("there are no pages", err)
	}
	for _, path := range pages {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		blocks := shellBlocks(string(page))
		if len(blocks) == 0 {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(path), ".md"), func(t *testing.T) {
			t.Parallel()
			d, dir := start(t, "--listen", "127.0.0.1:0"), t.TempDir()
			for _, block := range blocks {
				shell := exec.Command("bash", "-euxo", "pipefail", "-c", block)
				shell.Dir = dir
				shell.Env = append(os.Environ(), "JOBD_SOCKET="+d.socket(), "PATH="+bin+":"+os.Getenv("PATH"))
				out, err := shell.CombinedOutput()
				t.Logf("%s", out)
				if err != nil {
					t.Fatalf("%v in:\n%s", err, block)
				}
			}
		})
	}
}

// shellBlocks returns the blocks of code that are marked as shell.
func shellBlocks(page string) (blocks []string) {
	for {
		_, rest, found := strings.Cut(page, "\n```sh\n")
		if !found {
			return blocks
		}
		block, rest, _ := strings.Cut(rest, "\n```\n")
		blocks, page = append(blocks, block), rest
	}
}
