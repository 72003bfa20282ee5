package layout

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Every path that has a method is removed by clean or purge.
func TestEveryPathIsOneOfTheOwn(t *testing.T) {
	const dir = "/some/where"
	for what, own := range map[any]func(string) bool{
		Root(dir):  Root(dir).Owns,
		State(dir): State(dir).Owns,
	} {
		v, found := reflect.ValueOf(what), 0
		for i := range v.NumMethod() {
			path, ok := v.Method(i).Interface().(func() string)
			if !ok {
				continue
			}
			found++
			name, below := strings.CutPrefix(path(), dir+"/")
			name, _, _ = strings.Cut(name, "/")
			if !below || !own(name) {
				t.Errorf("%T.%s: %s is in no table", what, v.Type().Method(i).Name, path())
			}
		}
		if found < 10 {
			t.Errorf("%T has %d paths", what, found)
		}
	}
}

func TestWhatElseLiesInARootIsNotOurs(t *testing.T) {
	for name, want := range map[string]bool{
		"jobd.db": true, "jobd.db.lock": true, ".kubeconfig-123": true, "oci-runtimes.json~new": true,
		"jobd.db.bak": false, "backup.db": false, "thesis.tex": false, "lost+found": false, "state.lock": false,
	} {
		if got := Root("/r").Owns(name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestOwnOfAStateDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"epoch", "trial-7", "trial-7.log", "thesis.tex", "jobd.db"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := State(dir).Own()
	want := []string{filepath.Join(dir, "epoch"), filepath.Join(dir, "trial-7"), filepath.Join(dir, "trial-7.log")}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if got, err := State(filepath.Join(dir, "missing")).Own(); !os.IsNotExist(err) || len(got) > 0 {
		t.Errorf("of none: %v, %v", got, err)
	}
}

func TestMounts(t *testing.T) {
	if got, want := Root("/r").Mounts(), []string{"/r/containerd", "/r/pods"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	want := []string{"/s/attached", "/s/containerd", "/s/host", "/s/ns", "/s/ns-prepared", "/s/pins", "/s/pods", "/s/processes", "/s/shards", "/s/userns"}
	if got := State("/s").Mounts(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
