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
		if all := pages["program.1"] + pages["program-sub.1"]; !strings.Contains(all, want) {
			t.Errorf("no %s in\n%s", want, all)
		}
	}
}

// TestTheFirstPage: what somebody looks for comes before the options, which the other pages only refer to.
func TestTheFirstPage(t *testing.T) {
	root := &cobra.Command{Use: "program", Short: "Do things", Version: "1"}
	root.PersistentFlags().String("socket", "/run/s", "Where it listens")
	root.AddGroup(&cobra.Group{ID: "jobs", Title: "Jobs:"}, &cobra.Group{ID: "none", Title: "Nothing:"})
	run := func(*cobra.Command, []string) {}
	below := &cobra.Command{Use: "below", Short: "Be below", Run: run}
	more := &cobra.Command{Use: "more", Short: "Do more"}
	more.AddCommand(below)
	root.AddCommand(
		&cobra.Command{Use: "submit", Short: "Run a Job", GroupID: "jobs", Run: run}, more,
		&cobra.Command{Use: "secret", Hidden: true, Run: run}, Command("1"),
	)
	dir := t.TempDir()
	root.SetArgs([]string{"man", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	page := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(text), "\\", "")
	}
	at := -1
	for _, want := range []string{"COMMANDS", "Jobs", "program-submit(1)", "Run a Job", "Others", "program-more(1)", "OPTIONS", "--socket"} {
		next := strings.Index(page("program.1"), want)
		if next <= at {
			t.Fatalf("%q is at %d, and what comes before it at %d:\n%s", want, next, at, page("program.1"))
		}
		at = next
	}
	for _, name := range []string{"program-submit.1", "program-more-below.1"} {
		if text := page(name); strings.Contains(text, "--socket") || !strings.Contains(text, "that all commands have are in") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
	if text := page("program.1"); strings.Contains(text, "secret") || strings.Contains(text, "Nothing") {
		t.Error(text)
	}
}
