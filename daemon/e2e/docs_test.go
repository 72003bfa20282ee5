package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// languages are the languages of blocks that TestDocs runs: with what, and what must succeed first, or they are skipped.
var languages = map[string]struct{ run, needs []string }{
	"sh":     {run: []string{"bash", "-euxo", "pipefail", "-c"}},
	"python": {run: []string{"/usr/bin/python3", "-c"}, needs: []string{"/usr/bin/python3", "-c", "import kubernetes"}},
	"javascript": {
		run: []string{"node", "-e"}, needs: []string{"node", "-e", "import('@kubernetes/client-node').catch(e => { console.error(e.message); process.exit(1) })"},
	},
}

// TestDocs runs the blocks of the pages in docs, those of a page one after the other, as a reader would: jobctl speaks to a jobd of
// the page's own.
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
		blocks := blocksOf(string(page))
		if len(blocks) == 0 {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(path), ".md"), func(t *testing.T) {
			t.Parallel()
			d, dir := start(t, "--listen", "127.0.0.1:0"), t.TempDir()
			if modules := os.Getenv("NODE_PATH"); modules != "" { // which node does not read for what is imported
				if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
					t.Fatal(err)
				}
			}
			for _, block := range blocks {
				command := func(args ...string) ([]byte, error) {
					c := exec.Command(args[0], args[1:]...)
					c.Dir = dir
					c.Env = append(os.Environ(), "JOBD_SOCKET="+d.socket(), "PATH="+bin+":"+os.Getenv("PATH"))
					return c.CombinedOutput()
				}
				language := languages[block.language]
				if len(language.needs) > 0 {
					if out, err := command(language.needs...); err != nil {
						t.Logf("left out, for want of the Kubernetes client for %s: %s", block.language, out)
						continue
					}
				}
				out, err := command(append(slices.Clone(language.run), block.code)...)
				t.Logf("%s", out)
				if err != nil {
					t.Fatalf("%v in:\n%s", err, block.code)
				}
			}
		})
	}
}

type docsBlock struct{ language, code string }

// blocksOf returns the blocks of code in languages that are run.
func blocksOf(page string) (blocks []docsBlock) {
	for _, found := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		if _, ok := languages[found[1]]; ok {
			blocks = append(blocks, docsBlock{found[1], found[2]})
		}
	}
	return blocks
}
