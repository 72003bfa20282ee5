package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// languages are the languages of blocks that TestDocs runs: with what, and what must succeed first, or they are skipped.
// Manifests are shown to the server.
var languages = map[string]struct{ run, needs []string }{
	"sh":      {run: []string{"bash", "-euxo", "pipefail", "-c"}},
	"console": {},
	"yaml":    {run: []string{"bash", "-c", `jobctl apply --dry-run=server -f - <<<"$0"`}},
	"python":  {run: []string{"/usr/bin/python3", "-c"}, needs: []string{"/usr/bin/python3", "-c", "import kubernetes"}},
	"javascript": {
		run: []string{"node", "-e"}, needs: []string{
			"node", "-e", "import('@kubernetes/client-node').catch(e => { console.error(e.message); process.exit(1) })",
		},
	},
}

// pages are the pages whose blocks are run.
func pages(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(all) == 0 {
		t.Fatal("there are no pages", err)
	}
	return append(all, "../../README.md", "../../CONTRIBUTING.md", "../../SECURITY.md")
}

// TestDocs runs the blocks of the pages, those of a page one after the other, as a reader would: jobctl speaks to a jobd of the
// page's own.
func TestDocs(t *testing.T) {
	needContainers(t)
	for _, path := range pages(t) {
		blocks := blocksOf(t, path)
		if !slices.ContainsFunc(blocks, func(b docsBlock) bool { return b.notRun == "" }) {
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
			command := func(args ...string) (string, error) {
				c := exec.Command(args[0], args[1:]...)
				c.Dir = dir
				c.Env = append(os.Environ(), "JOBD_SOCKET="+d.socket(), "PATH="+bin+":"+os.Getenv("PATH"))
				out, err := c.CombinedOutput()
				return string(out), err
			}
			for _, block := range blocks {
				if block.notRun != "" {
					continue
				}
				language := languages[block.language]
				if len(language.needs) > 0 {
					if out, err := command(language.needs...); err != nil {
						t.Logf("left out, for want of the Kubernetes client for %s: %s", block.language, out)
						continue
					}
				}
				if block.before != "" {
					if out, err := command(append(slices.Clone(languages["sh"].run), block.before)...); err != nil {
						t.Fatalf("%v before:\n%s\n%s", err, block.code, out)
					}
				}
				if block.language == "console" {
					replay(t, block.code, command)
					continue
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

// TestEveryBlockIsRun holds every block of code of the pages against the rule: it is in a language that TestDocs runs, or the
// comment before it says why not, and which test stands in for it, if one does.
func TestEveryBlockIsRun(t *testing.T) {
	tests := testNames(t)
	for _, path := range pages(t) {
		for _, block := range blocksOf(t, path) {
			first, _, _ := strings.Cut(block.code, "\n")
			if block.notRun == "" {
				if _, ok := languages[block.language]; !ok {
					t.Errorf("%s: no test runs blocks in %q: use another language, or put <!-- not run: REASON --> before it:\n%s",
						path, block.language, first)
				}
				continue
			}
			t.Logf("%s: %s: not run: %s", filepath.Base(path), first, block.notRun)
			for _, name := range regexp.MustCompile(`\bTest\w+`).FindAllString(block.notRun, -1) {
				if !tests[name] {
					t.Errorf("%s: there is no %s, which is to stand in for:\n%s", path, name, first)
				}
			}
		}
	}
}

// testNames returns the names of all tests of the repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && !strings.HasPrefix(entry.Name(), ".."):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		code, err := os.ReadFile(path)
		for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(code, -1) {
			names[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// docsBlock is a block of code of a page.
type docsBlock struct {
	language, code string
	// before is run before the block, and not shown: <!-- before: ... -->.
	before string
	// notRun says why the block is not run: <!-- not run: ... -->.
	notRun string
}

var (
	fences  = regexp.MustCompile("(?ms)^(?:<!-- (before|not run):\\s(.*?)\\s*-->\n)?```(\\w*)\n(.*?)^```$")
	indents = regexp.MustCompile(`(?m)(?:\A|^\n)    .*$`)
)

// blocksOf returns the blocks of code of a page, all of which have to be fenced.
func blocksOf(t *testing.T, path string) (blocks []docsBlock) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range fences.FindAllStringSubmatch(string(content), -1) {
		block := docsBlock{language: found[3], code: found[4]}
		switch found[1] {
		case "before":
			block.before = found[2]
		case "not run":
			block.notRun = found[2]
		}
		blocks = append(blocks, block)
	}
	prose := fences.ReplaceAllString(string(content), "")
	if strings.Contains(prose, "\n```") {
		t.Errorf("%s: a block of code has no end", path)
	}
	for _, found := range indents.FindAllString(prose, -1) {
		t.Errorf("%s: a block of code is indented, so that it has no language: put it between fences:\n%s", path, found)
	}
	return blocks
}

// replay runs the commands of a transcript, which follow "$ ". Each line that it shows must be in what the command prints, which may
// be more, and in another order where pods are concurrent: a page shows what matters. "..." is left out of any output.
func replay(t *testing.T, transcript string, command func(...string) (string, error)) {
	t.Helper()
	code, printed := 0, map[string]bool{}
	for line := range strings.Lines(transcript) {
		line = strings.TrimSuffix(line, "\n")
		if typed, ok := strings.CutPrefix(line, "$ "); ok {
			out, err := command("bash", "-c", fmt.Sprintf("(exit %d); %s", code, typed))
			t.Logf("$ %s\n%s", typed, out)
			code = 0
			if exit, ok := err.(*exec.ExitError); ok {
				code = exit.ExitCode()
			} else if err != nil {
				t.Fatalf("%s: %v", typed, err)
			}
			clear(printed)
			for shown := range strings.Lines(out) {
				printed[constant(shown)] = true
			}
			continue
		}
		if text := constant(line); text != "" && text != "..." && !passing.MatchString(text) && !printed[text] {
			t.Errorf("no command prints this line of the page:\n%s\n%s", line, text)
		}
	}
}

// passing is a state of a Job or pod on its way, which a command that is slower than it does not show.
var passing = regexp.MustCompile(`^(job|pod) \S+: (pending|starting|running)\b`)

// fromRunToRun is what differs from run to run: the random end of names, times, and " after 1s" where something takes that long.
var fromRunToRun = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}\b|(( after)? )?\b(\d+(\.\d+)?(ms|h|m|s))+\b`)

// constant returns a line without what differs from run to run.
func constant(line string) string {
	return strings.Join(strings.Fields(fromRunToRun.ReplaceAllString(line, "")), " ")
}
