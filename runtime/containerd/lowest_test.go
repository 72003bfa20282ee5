package containerd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// However containers with mount points of their own come and go, the layer of each is whole as long as it has users, and
// a new one takes the place of those that have none.
func TestLayersOfMountPointsComeAndGo(t *testing.T) {
	const enough, most = 6, 30
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp("", "lowest")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		l := newLowestLayers(dir, enough, most)
		type user struct{ name, place string }
		var users []user
		next, common := 0, rapid.IntRange(0, 8)
		for range rapid.IntRange(1, 20).Draw(r, "steps") {
			if len(users) > 0 && rapid.Bool().Draw(r, "some go") {
				for range rapid.IntRange(1, len(users)).Draw(r, "how many") {
					i := rapid.IntRange(0, len(users)-1).Draw(r, "who")
					l.drop(users[i].name)
					users = append(users[:i], users[i+1:]...)
				}
				continue
			}
			made := false
			for range rapid.IntRange(1, 4).Draw(r, "how many") {
				next++
				place := fmt.Sprintf("/own/%d", next)
				n := common.Draw(r, "place")
				if n > 4 {
					place = fmt.Sprintf("/common/%d", n)
				}
				made = n <= 4
				name, err := l.take([]specs.Mount{{Destination: place, Type: "tmpfs"}})
				if err != nil {
					t.Fatal(err)
				}
				users = append(users, user{name, place})
			}
			distinct := map[string]bool{}
			for _, u := range users {
				distinct[u.name] = true
				if u.name == "none" {
					continue
				}
				if info, err := os.Stat(filepath.Join(dir, u.name, u.place)); err != nil || !info.IsDir() {
					t.Fatalf("mount point of a container: %v", err)
				}
			}
			kept, err := os.ReadDir(dir)
			if err != nil || len(kept) != len(l.made) || made && len(kept) > max(enough, len(distinct)) {
				t.Fatalf("%d layers, %d known, %d in use: %v", len(kept), len(l.made), len(distinct), err)
			}
		}
	})
}

func TestTooManyMountPointsShareALayerWithoutAny(t *testing.T) {
	const most = 5
	l := newLowestLayers(t.TempDir(), 3, most)
	for i := range most + 2 {
		name, err := l.take([]specs.Mount{{Destination: fmt.Sprintf("/%d", i), Type: "tmpfs"}})
		if err != nil || (name == "none") != (i >= most) {
			t.Fatalf("layer %d is %q: %v", i, name, err)
		}
	}
	l.drop("none")
	if len(l.made) != most+1 || l.made["none"].users != 1 {
		t.Errorf("%d layers, %+v", len(l.made), l.made["none"])
	}
}

// A mount point may have a line break in its path, and must not stand for two others.
func TestPathsOfMountPointsAreToldApart(t *testing.T) {
	l := newLowestLayers(t.TempDir(), 3, 5)
	one, err := l.take([]specs.Mount{{Destination: "/x/\n/y", Type: "tmpfs"}})
	if err != nil {
		t.Fatal(err)
	}
	two, err := l.take([]specs.Mount{{Destination: "/x", Type: "tmpfs"}, {Destination: "/y", Type: "tmpfs"}})
	if err != nil || one == two {
		t.Errorf("layers %q and %q: %v", one, two, err)
	}
}

func TestNothingIsLeftOfALayerThatCannotBeMade(t *testing.T) {
	l := newLowestLayers(t.TempDir(), 3, 5)
	for i := range 3 {
		mounts := []specs.Mount{
			{Destination: fmt.Sprintf("/%d", i), Type: "tmpfs"},
			{Destination: "/" + strings.Repeat("x", 300), Type: "tmpfs"},
		}
		if name, err := l.take(mounts); !errors.Is(err, unix.ENAMETOOLONG) {
			t.Fatalf("layer %q: %v", name, err)
		}
	}
	if kept, err := os.ReadDir(l.dir); err != nil || len(kept) > 0 || len(l.made) > 0 {
		t.Errorf("%v, %v are left: %v", kept, l.made, err)
	}
}

func TestSweepLeavesTheLayersThatAreUsed(t *testing.T) {
	l := newLowestLayers(t.TempDir(), 3, 5)
	used, err := l.take([]specs.Mount{{Destination: "/used", Type: "tmpfs"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{"earlier", "killed", "killed" + unfinished, used + unfinished} {
		if err := os.MkdirAll(filepath.Join(l.dir, left, "place"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.sweep(); err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadDir(l.dir); err != nil || len(kept) != 1 || kept[0].Name() != used {
		t.Errorf("%v are left: %v", kept, err)
	}
}

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
