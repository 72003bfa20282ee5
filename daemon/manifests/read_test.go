package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/api/batch"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n"

func TestRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	one := fmt.Sprintf(configMap, "a")
	cases := map[string]struct {
		text string
		mode os.FileMode
		want string // the objects, or the beginning of the error
	}{
		"a.yaml":      {one + "---\n" + fmt.Sprintf(configMap, "b") + "---\n", 0o644, "ConfigMap default/a, ConfigMap default/b"},
		"b.json":      {`{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "n"}}`, 0o600, "Job n/j"},
		"c.yml":       {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Namespace, metadata: {name: team}}\n", 0o644, "Namespace team"},
		"d.yaml":      {"", 0o644, "is empty, which removes nothing: remove the file to remove its objects"},
		"e.yaml":      {"# nothing\n---\n", 0o644, "is empty, which removes nothing"},
		"group.yaml":  {one, 0o664, "is not read: others than root may write it (mode 664)"},
		"world.yaml":  {one, 0o646, "is not read: others than root may write it (mode 646)"},
		"syntax.yaml": {one + "---\nkind: [\n", 0o644, "is not applied: document 2: "},
		"kind.yaml":   {"apiVersion: v1\nkind: Jobb\nmetadata: {name: a}\n", 0o644, "is not applied: document 1: there is no kind Jobb in v1"},
		"name.yaml":   {"apiVersion: v1\nkind: ConfigMap\n", 0o644, "is not applied: document 1: a ConfigMap has no metadata.name"},
		"generated.yaml": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n", 0o644, "is not applied: document 1: a ConfigMap has metadata.generateName",
		},
		"path.yaml": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ../../x}\n", 0o644, `is not applied: document 1: "../../x" in "" cannot be`},
		"none.yaml": {
			"apiVersion: v1\nkind: Namespace\nmetadata: {name: team, namespace: m}\n", 0o644,
			"is not applied: document 1: Namespace m/team is in a namespace",
		},
		"large.yaml":   {strings.Repeat("#", maxFile+1), 0o644, "is not read: it has more than 1 MiB"},
		"many.yaml":    {strings.Repeat(one+"---\n", maxObjects+1), 0o644, "is not applied: document 2001: there are more than 2000"},
		"no.txt":       {"nobody reads it", 0o644, "-"},
		".hidden.yaml": {"nor this", 0o644, "-"},
	}
	for name, c := range cases {
		write(name, c.text, c.mode)
	}
	if err := os.Symlink("a.yaml", filepath.Join(dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "dir.yaml"), 0o755); err != nil {
		t.Fatal(err)
	}
	files, err := read(dir, uint32(os.Geteuid()))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range files {
		var all []string
		for _, o := range f.Objects {
			all = append(all, o.Ref.String())
			if o.File != f.Name || o.Body.GetLabels()[PartOf] != SetID || o.Hash == "" || o.Body.GetNamespace() != o.Namespace ||
				(o.Body.GetAnnotations()[batch.ManifestHashAnnotation] == o.Hash) != (o.Kind == "Job") {
				t.Errorf("%s: %+v", f.Name, o)
			}
		}
		if got[f.Name] = strings.Join(all, ", "); f.Err != nil {
			got[f.Name] = f.Err.Error()
		}
	}
	for name, c := range cases {
		if text, is := got[name]; is == (c.want == "-") || is && !strings.HasPrefix(text, c.want) {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
	for name, want := range map[string]string{
		"link.yaml": "is not read: it is a symbolic link", "pipe.yaml": "is not read: it is no regular file", "dir.yaml": "is not read: it is no regular file",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	if _, err := read(dir, uint32(os.Geteuid()+1)); err == nil || !strings.Contains(err.Error(), "belongs to uid") {
		t.Errorf("a directory of somebody else: %v", err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := read(dir, uint32(os.Geteuid())); err == nil || !strings.Contains(err.Error(), "others than root may write it") {
		t.Errorf("a directory that all may write: %v", err)
	}
}

func TestManyFiles(t *testing.T) {
	dir := t.TempDir()
	_ = os.Chmod(dir, 0o755)
	for i := range maxFiles + 2 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.yaml", i)), fmt.Appendf(nil, configMap, fmt.Sprint("a", i)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files, err := read(dir, uint32(os.Geteuid()))
	if err != nil || len(files) != maxFiles+2 || files[maxFiles-1].Err != nil || files[maxFiles].Err == nil {
		t.Errorf("%v: %d files", err, len(files))
	}
}

// Comments and the order of fields are no change.
func TestHash(t *testing.T) {
	hash := func(text string) string {
		all, err := parse("f", []byte(text))
		if err != nil || len(all) != 1 {
			t.Fatal(err)
		}
		return all[0].Hash
	}
	first := hash("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: \"1\"}\n")
	if hash("# again\nkind: ConfigMap\napiVersion: v1\ndata:\n  x: '1'\nmetadata: {name: a}\n") != first {
		t.Error("the same is another")
	}
	if hash("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: \"2\"}\n") == first {
		t.Error("another is the same")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(fmt.Sprintf(configMap, "a")))
	f.Add([]byte("apiVersion: v1\nkind: List\nitems: [1]\n"))
	f.Add([]byte("apiVersion: v1\nkind: List\nitems: {}\n---\n- 1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := parse("f", text)
		if err != nil && len(all) > 0 {
			t.Error("an error, and objects")
		}
	})
}
