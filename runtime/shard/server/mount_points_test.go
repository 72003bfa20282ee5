package server

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

// TestMountPointsAtLinksToNothing: what is made lies where the link leads in the container, never outside of its root, and
// nothing is made where the OCI runtime does well without.
func TestMountPointsAtLinksToNothing(t *testing.T) {
	source := t.TempDir()
	file := filepath.Join(source, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		links  map[string]string // of the image
		source string
		at     string
		made   string // the deepest directory
	}{
		"an absolute link":             {map[string]string{"l": "/gone/x"}, source, "/l", "gone/x"},
		"a relative link":              {map[string]string{"l": "gone/x"}, source, "/l", "gone/x"},
		"a link out of the root":       {map[string]string{"l": "../../../gone"}, source, "/l", "gone"},
		"a chain of links":             {map[string]string{"l": "m", "m": "/n/x", "n": "gone"}, source, "/l", "gone/x"},
		"below a link":                 {map[string]string{"l": "/gone"}, source, "/l/a/b", "gone/a/b"},
		"a path with dots":             {map[string]string{"l": "/gone"}, source, "/real/.././l/", "gone"},
		"a file at a link":             {map[string]string{"l": "/gone/file"}, file, "/l", "gone"},
		"a file below a link":          {map[string]string{"l": "/gone"}, file, "/l/file", "gone"},
		"a source that is not there":   {map[string]string{"l": "/gone/x"}, source + "/none", "/l", "gone"},
		"no link":                      {nil, source, "/gone", ""},
		"a directory":                  {nil, source, "/real", ""},
		"a link to a directory":        {map[string]string{"l": "real"}, source, "/l", ""},
		"a link to itself":             {map[string]string{"l": "l"}, source, "/l", ""},
		"a link to what is below file": {map[string]string{"l": "real/file/x"}, source, "/l", ""},
		"a link to the host's /proc":   {map[string]string{"l": "/proc/self/fd"}, source, "/l", "proc/self/fd"},
	} {
		t.Run(name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "root")
			for _, dir := range []string{root, filepath.Join(root, "real")} {
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(root, "real/file"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for link, to := range tc.links {
				if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
					t.Fatal(err)
				}
			}
			before := directories(t, filepath.Dir(root))
			linked := makeMountPoints(root, []protocol.Bind{{Source: tc.source, Destination: tc.at}}, nil)
			if linked != (tc.links != nil) {
				t.Errorf("by a symlink: %t", linked)
			}
			made := slices.DeleteFunc(directories(t, filepath.Dir(root)), func(d string) bool { return slices.Contains(before, d) })
			var want []string
			for dir := tc.made; dir != "" && dir != "."; dir = filepath.Dir(dir) {
				want = append(want, "root/"+dir)
			}
			slices.Sort(want)
			if !slices.Equal(made, want) {
				t.Errorf("made %q, want %q", made, want)
			}
		})
	}
}

func directories(t *testing.T, in string) (all []string) {
	t.Helper()
	if err := filepath.WalkDir(in, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			all = append(all, strings.TrimPrefix(path, in+"/"))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}
