package server

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

func TestProgramIsExecutedFromACopyThatNobodyCanWriteTo(t *testing.T) {
	name := filepath.Join(t.TempDir(), "program")
	read := func(path string) string {
		t.Helper()
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	install := func(content string) {
		t.Helper()
		if err := os.WriteFile(name+".new", []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
	p := programs{}
	if got := p.path(name); got != name {
		t.Errorf("one that is not there is executed as %s", got)
	}
	install("one")
	first := p.path(name)
	if first == name {
		t.Skip("no copies in memory here")
	}
	if got := read(first); got != "one" {
		t.Errorf("the copy is %q", got)
	}
	if f, err := os.OpenFile(first, os.O_RDWR, 0); err == nil {
		if _, err := f.Write([]byte("two")); err == nil {
			t.Error("the copy was overwritten")
		}
		f.Close()
	}
	if again := p.path(name); again != first {
		t.Errorf("it is copied again, from %s to %s", first, again)
	}
	install("another version")
	if got := read(p.path(name)); got != "another version" {
		t.Errorf("after another one was installed the copy is %q", got)
	}
}

func TestCopyIsExecutedWhateverFilesItGets(t *testing.T) {
	open := func() *os.File {
		t.Helper()
		f, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	low := []*os.File{open(), open(), open(), open()}
	files := [3]*os.File{open(), open(), open()}
	low[0].Close() // for the file that is copied: the copy then has the number after those of the files
	p := programs{}
	path := p.path("/bin/true")
	protocol.CloseAll(low[1:]) // so that what is made for the child has smaller ones
	pid, err := fork(path, []string{"true"}, files, nil)
	if err != nil {
		t.Fatal(err)
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, 0, nil); err != nil || status != 0 {
		t.Errorf("it ended with %v, %v", status, err)
	}
}
