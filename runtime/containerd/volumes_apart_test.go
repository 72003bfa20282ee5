package containerd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/opencontainers/runtime-spec/specs-go"
)

func TestVolumesAreKeptApart(t *testing.T) {
	image := t.TempDir()
	for link, to := range map[string]string{"work": "/h/bob", "up": "..", "dev2": "/dev", "a": "b", "b": "/h"} {
		if err := os.Symlink(to, filepath.Join(image, link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		volumes, others []string
		cwd             string
		wrong           string // the place
	}{
		"none":                                   {nil, nil, "/h/x", ""},
		"beside each other":                      {[]string{"/h", "/i"}, []string{"/etc/hosts"}, "/", ""},
		"the working directory is a volume":      {[]string{"/h"}, nil, "/h", ""},
		"the same by a symlink":                  {[]string{"/h"}, nil, "/a", ""},
		"the working directory is in a volume":   {[]string{"/h"}, nil, "/h/new", "/h/new"},
		"by a symlink of the image":              {[]string{"/h"}, nil, "/work/new", "/work/new"},
		"by two":                                 {[]string{"/h"}, nil, "/a/new", "/a/new"},
		"by dots":                                {[]string{"/h"}, nil, "/x/../h/new", "/x/../h/new"},
		"a volume in a volume":                   {[]string{"/h", "/h/b"}, nil, "/", "/h/b"},
		"a volume by a symlink in a volume":      {[]string{"/h", "/work"}, nil, "/", "/work"},
		"a file of the pod in a volume":          {[]string{"/etc"}, []string{"/etc/hosts"}, "/", "/etc/hosts"},
		"the devices in a volume":                {[]string{"/dev"}, nil, "/", "/dev/null"},
		"the same by a symlink to the directory": {[]string{"/dev2"}, nil, "/", "/dev/null"},
		"all in a volume":                        {[]string{"/up"}, nil, "/x", "/x"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &specs.Spec{Process: &specs.Process{Cwd: c.cwd}, Annotations: map[string]string{}}
			for _, at := range append(c.volumes, c.others...) {
				spec.Mounts = append(spec.Mounts, specs.Mount{Destination: at})
			}
			if c.volumes != nil {
				text, err := json.Marshal(c.volumes)
				if err != nil {
					t.Fatal(err)
				}
				spec.Annotations["jobd.dev/volumes-apart"] = string(text)
			}
			err := keepApart(spec, t.TempDir(), []mount.Mount{{Type: "bind", Source: image}})
			if (err == nil) != (c.wrong == "") || err != nil && !strings.HasPrefix(err.Error(), c.wrong+" is in the volume at ") {
				t.Errorf("%v, want %q", err, c.wrong)
			}
		})
	}
}
