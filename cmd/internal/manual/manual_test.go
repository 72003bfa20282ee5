package manual

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestPagesAreAnybodys: a page does not tell whose home it was made in.
func TestPagesAreAnybodys(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	pages := map[string]string{}
	for _, home := range []string{"/root", "/home/x", "/home/x/", "/home/somebody"} {
		t.Setenv("HOME", home)
		root := &cobra.Command{Use: "program", Version: "1"}
		sub := &cobra.Command{Use: "sub", Run: func(*cobra.Command, []string) {}}
		root.PersistentFlags().String("cache-dir", filepath.Join(home, ".kube/cache"), "Where the cache is")
		sub.Flags().String("file", filepath.Join(home, "file"), "A file")
		sub.Flags().String("other", "/var/lib/x", "Another")
		root.AddCommand(sub, Command("1"))
		dir := t.TempDir()
		root.SetArgs([]string{"man", dir})
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"program.1", "program-sub.1"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if was, ok := pages[name]; ok && was != string(text) {
				t.Errorf("%s is another one in %s:\n%s", name, home, text)
			}
			pages[name] = string(text)
		}
	}
	for _, want := range []string{`"~/.kube/cache"`, `"~/file"`, "/var/lib/x"} {
		if !strings.Contains(pages["program-sub.1"], want) {
			t.Errorf("no %s in\n%s", want, pages["program-sub.1"])
		}
	}
}
