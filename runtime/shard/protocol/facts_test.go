package protocol

import (
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

func TestIsNested(t *testing.T) {
	for name, c := range map[string]struct {
		binds, others, devices []string
		want                   bool
	}{
		"none":                           {},
		"beside each other":              {binds: []string{"/a", "/ab", "/a-b", "/b", "/dev/shm"}, others: []string{"/dev", "/dev/pts"}},
		"in another one":                 {binds: []string{"/b", "/a/x", "/a-b", "/a"}, want: true},
		"deep in another one":            {binds: []string{"/a", "/b", "/a/x/y/z"}, want: true},
		"by another name":                {binds: []string{"/a/", "x", "//a/../a/x"}, want: true},
		"at the same place":              {binds: []string{"/a", "/a/"}, want: true},
		"around all":                     {binds: []string{"/", "/a"}, want: true},
		"in what is mounted by itself":   {binds: []string{"/dev/a", "/sys/b"}, others: []string{"/dev", "/sys"}},
		"a file system in one":           {binds: []string{"/dev"}, others: []string{"/dev/pts"}},
		"a device":                       {binds: []string{"/a", "/dev/shm"}, devices: []string{"/dev/null", "/dev/shm2"}},
		"a device in one":                {binds: []string{"/dev/shm"}, devices: []string{"/dev/shm/null"}, want: true},
		"a device where an image may be": {devices: []string{"/disk"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			var mounts []specs.Mount
			for _, at := range c.binds {
				mounts = append(mounts, specs.Mount{Destination: at, Options: []string{"rbind"}})
			}
			for _, at := range c.others {
				mounts = append(mounts, specs.Mount{Destination: at, Type: "tmpfs"})
			}
			var devices []specs.LinuxDevice
			for _, at := range c.devices {
				devices = append(devices, specs.LinuxDevice{Path: at})
			}
			if got := IsNested(mounts, devices); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
