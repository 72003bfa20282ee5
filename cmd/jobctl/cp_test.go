package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// onWrite does something before the first bytes are written.
type onWrite struct {
	io.Writer
	done atomic.Bool
	do   func()
}

func (w *onWrite) Write(p []byte) (int, error) {
	if !w.done.Swap(true) {
		w.do()
	}
	return w.Writer.Write(p)
}

// Whose directory is copied by root puts a symlink to a file of root in the place of one that was seen to be none.
func TestCopiesReadNothingElse(t *testing.T) {
	for name, one := range map[string]bool{"a directory": false, "a file": true} {
		t.Run(name, func(t *testing.T) {
			dir, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
			file := filepath.Join(dir, "file")
			if err := errors.Join(os.WriteFile(file, []byte("mine"), 0o644), os.WriteFile(secret, []byte("root"), 0o600)); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			w := &onWrite{Writer: &out, do: func() { // the header of the file, or of the directory above, which was looked at before
				if err := errors.Join(os.Remove(file), os.Symlink(secret, file)); err != nil {
					t.Error(err)
				}
			}}
			from := dir
			if one {
				from = file
			}
			c := filesCopy{IOStreams: genericiooptions.NewTestIOStreamsDiscard()}
			err := c.pack(w, from)
			if one && err == nil {
				t.Error("the file was exchanged, and nobody says so")
			}
			for in := tar.NewReader(&out); ; {
				if _, err := in.Next(); err != nil {
					return
				}
				if content, _ := io.ReadAll(in); bytes.Contains(content, []byte("root")) {
					t.Error("it has what the symlink leads to")
				}
			}
		})
	}
}
