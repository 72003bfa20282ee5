package server

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

func TestMountsOfAUserNamespace(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	spec := `{"x": 1, "linux": {"cgroupsPath": "/c", "namespaces": [{"type": "mount"}, {"type": "user", "path": "/ns"}],
		"uidMappings": [{"containerID": 0, "hostID": 131072, "size": 65536}]},
		"mounts": [{"destination": "/a", "source": "/etc", "options": ["rbind"]},
			{"destination": "/b", "source": "` + dir + `", "options": ["rbind", "ro"], "uidMappings": [{"containerID": 0, "hostID": 131072, "size": 65536}], "y": 2},
			{"destination": "/c", "source": "` + dir + `/file", "options": ["bind", "nosuid", "nodev", "noexec"], "uidMappings": [{"containerID": 0, "hostID": 131072, "size": 65536}], "gidMappings": []}]}`
	at := t.TempDir()
	out, facts, err := prepareSpec([]byte(spec), placesIn(at))
	if err != nil {
		t.Fatal(err)
	}
	want := users{Namespace: "/ns", Root: 131072, Mounts: []mappedMount{
		{Source: dir, Place: at + "/places/d1", Recursive: true},
		{Source: dir + "/file", Place: at + "/places/f2", Attributes: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC},
	}}
	if got, _ := json.Marshal(facts.Users); string(got) != marshal(t, want) {
		t.Errorf("users are %s, want %s", got, marshal(t, want))
	}
	var got struct{ Mounts []map[string]any }
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	for i, source := range []string{"/etc", at + "/places/d1", at + "/places/f2"} {
		m := got.Mounts[i]
		if m["source"] != source || m["uidMappings"] != nil || m["gidMappings"] != nil {
			t.Errorf("mount %d is %v, want it from %s", i, m, source)
		}
	}
	if got.Mounts[1]["y"] != 2.0 || !strings.Contains(string(out), `"x":1`) {
		t.Errorf("what is not known is gone: %s", out)
	}
	for place, directory := range map[string]bool{"d1": true, "f2": false} {
		if info, err := os.Stat(filepath.Join(at, "places", place)); err != nil || info.IsDir() != directory {
			t.Errorf("place %s: %v, %v", place, info, err)
		}
	}
}

func TestAUserNamespaceHasAPathAndAMapping(t *testing.T) {
	for _, linux := range []string{
		`"namespaces": [{"type": "user"}], "uidMappings": [{"containerID": 0, "hostID": 131072, "size": 65536}]`,
		`"namespaces": [{"type": "user", "path": "/ns"}]`,
		`"namespaces": [{"type": "user", "path": "/ns"}], "uidMappings": [{"containerID": 1, "hostID": 131072, "size": 65536}]`,
	} {
		_, _, err := prepareSpec([]byte(`{"linux": {"cgroupsPath": "/c", `+linux+`}}`), placesIn(t.TempDir()))
		if !errors.Is(err, errdefs.ErrInvalidArgument) {
			t.Errorf("%s: %v", linux, err)
		}
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
