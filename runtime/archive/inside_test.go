package archive

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What was packed in one place is the same where it is unpacked.
func TestInside(t *testing.T) {
	dir, _, _ := world(t)
	other := t.TempDir()
	for _, c := range []struct{ from, to, name, want, content string }{
		{"a/b/file", "new", "file", "new", "content"},
		{"a/b/file", "made/of/it", "file", "made/of/it", "content"},
		{"in/file", "", "file", "file", "content"},
		{"a", "tree", "a", "tree/b/file", "content"},
		{"a", "tree", "a", "tree/a/b/file", "content"}, // as tree is there now
		{"top", "file", "top", "file", "top"},
	} {
		var packed bytes.Buffer
		if err := Inside(t.Context(), []string{Pack, filepath.Join(dir, c.from)}, nil, &packed); err != nil {
			t.Fatalf("pack %s: %v", c.from, err)
		}
		if err := Inside(t.Context(), []string{Unpack, filepath.Join(other, c.to), c.name}, &packed, nil); err != nil {
			t.Fatalf("unpack %s: %v", c.to, err)
		}
		got := filepath.Join(other, c.want)
		info, err := os.Stat(got)
		if err != nil {
			t.Fatal(err)
		}
		if content, err := os.ReadFile(got); err != nil || string(content) != c.content || info.Mode() != 0o640 {
			t.Errorf("%s: %q, %v, %v", c.want, content, info.Mode(), err)
		}
	}
}

func TestInsideRefuses(t *testing.T) {
	dir, _, _ := world(t)
	for want, args := range map[string][]string{
		"no such file":                    {Pack, dir + "/nosuch"},
		"fifo is neither":                 {Pack, dir + "/fifo"},
		"is neither pack PATH nor unpack": {"remove", dir},
		"is neither pack PATH":            nil,
		dir + " is a directory":           {Unpack, dir, "../x"},
		"is neither a file nor a direct":  {Unpack, dir + "/new", "new"},
	} {
		var links, out bytes.Buffer
		if err := Inside(t.Context(), []string{Pack, dir}, nil, &links); err != nil {
			t.Fatal(err)
		}
		if err := Inside(t.Context(), args, &links, &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
	if err := Inside(t.Context(), []string{Pack, dir + "/nosuch"}, nil, nil); !os.IsNotExist(err) {
		t.Errorf("%v is not %v", err, fs.ErrNotExist)
	}
}
