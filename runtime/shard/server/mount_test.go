package server

import (
	"reflect"
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
		options []string
		dir     string
		short   []string
	}{
		"layers of one place":        {[]string{"lowerdir=/s/1/fs:/s/22/fs", "upperdir=/s/3/fs"}, "/s", []string{"lowerdir=1/fs:22/fs", "upperdir=/s/3/fs"}},
		"layers of different places": {[]string{"lowerdir=/s/1/fs:/t/2/fs"}, "/", []string{"lowerdir=s/1/fs:t/2/fs"}},
		"names that begin alike":     {[]string{"lowerdir=/snap/1:/snapshot/2"}, "/", []string{"lowerdir=snap/1:snapshot/2"}},
		"no layers":                  {[]string{"size=1g"}, "/", []string{"size=1g"}},
	} {
		t.Run(name, func(t *testing.T) {
			if dir, short := shortenLayers(c.options); dir != c.dir || !reflect.DeepEqual(short, c.short) {
				t.Errorf("got %s, %q", dir, short)
			}
		})
	}
}
