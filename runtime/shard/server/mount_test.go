package server

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

func TestMountOptions(t *testing.T) {
	flags, data := mountOptions(protocol.Mount{Options: []string{"rbind", "ro", "nosuid", "rw", "lowerdir=/a", "volatile"}})
	if flags != unix.MS_BIND|unix.MS_REC|unix.MS_NOSUID || !reflect.DeepEqual(data, []string{"lowerdir=/a", "volatile"}) {
		t.Errorf("flags %x, data %q", flags, data)
	}
}

func TestShortenLayers(t *testing.T) {
	for name, c := range map[string]struct {
		options   []string
		dir, near string
		short     []string
	}{
		"layers of one place": {
			[]string{"lowerdir=/s/1/fs:/s/22/fs", "upperdir=/s/3/fs"}, "/s", ".",
			[]string{"lowerdir=1/fs:22/fs", "upperdir=/s/3/fs"},
		},
		"one elsewhere": {
			[]string{"lowerdir=/o/snapshots/1/fs:/o/snapshots/2/fs:/o/containers/lowest/x"}, "/o", "snapshots",
			[]string{"lowerdir=1/fs:2/fs:../containers/lowest/x"},
		},
		"one elsewhere, at first": {
			[]string{"lowerdir=/o/containers/lowest/x:/o/snapshots/1/fs:/o/snapshots/2/fs"}, "/o", "snapshots",
			[]string{"lowerdir=../containers/lowest/x:1/fs:2/fs"},
		},
		"layers of different places": {[]string{"lowerdir=/s/1/fs:/t/2/fs"}, "/", ".", []string{"lowerdir=s/1/fs:t/2/fs"}},
		"names that begin alike":     {[]string{"lowerdir=/snap/1:/snapshot/2"}, "/", ".", []string{"lowerdir=snap/1:snapshot/2"}},
		"one layer":                  {[]string{"lowerdir=/s/1/fs"}, "/s/1", ".", []string{"lowerdir=fs"}},
		"no layers":                  {[]string{"size=1g"}, "/", ".", []string{"size=1g"}},
	} {
		t.Run(name, func(t *testing.T) {
			if dir, near, short := shortenLayers(c.options); dir != c.dir || near != c.near || !reflect.DeepEqual(short, c.short) {
				t.Errorf("got %s, %s, %q", dir, near, short)
			}
		})
	}
	for _, layers := range []int{125, 250, 500} { // the kernel takes 500
		var all []string
		const dir = "/var/lib/jobd/containerd/io.containerd.snapshotter.v1.overlayfs"
		for i := range layers - 1 {
			all = append(all, fmt.Sprintf("%s/snapshots/%d/fs", dir, 1000-i))
		}
		all = append(all, dir+"/containers/lowest/0123456789abcdef")
		_, _, short := shortenLayers(
			[]string{"upperdir=" + dir + "/containers/12/fs", "workdir=" + dir + "/containers/12/work", "lowerdir=" + strings.Join(all, ":")},
		)
		if n := len(strings.Join(short, ",")); n >= 4096 {
			t.Errorf("%d layers take %d bytes", layers, n)
		}
	}
}
