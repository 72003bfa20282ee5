package containerd

import (
	"slices"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

func TestPlacesAreThoseOutsideOfOtherMounts(t *testing.T) {
	at := func(kind string, destinations ...string) (mounts []specs.Mount) {
		for _, d := range destinations {
			mounts = append(mounts, specs.Mount{Type: kind, Source: "/dev/null", Destination: d})
		}
		return mounts
	}
	for _, tc := range []struct {
		name   string
		mounts []specs.Mount
		want   []string
	}{
		{"none", nil, nil},
		{"directories and files", append(at("tmpfs", "/b", "/a"), at("bind", "/etc/hosts")...), []string{"/a/", "/b/", "/etc/hosts"}},
		{"what is within another mount is not there yet", at("tmpfs", "/dev", "/dev/shm", "/dev/pts/x", "/device"), []string{"/dev/", "/device/"}},
		{"the same one in other words, twice", at("tmpfs", "/a", "a/", "/b/../a"), []string{"/a/"}},
		{"the root itself", at("tmpfs", "/", "/a"), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := placesOf(tc.mounts); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
