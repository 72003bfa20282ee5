package server

import (
	"errors"
	"reflect"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// What options say of the first mount holds for that alone. One that nobody knows is not left out.
func TestAttributesOfVolumesInVolumes(t *testing.T) {
	for _, c := range []struct {
		options     []string
		top, all    uint64
		propagation uint64
		left        []string // for the OCI runtime, where it mounts the tree
	}{
		{[]string{"rbind", "rprivate", "rw"}, 0, 0, unix.MS_PRIVATE, []string{"rbind", "rw"}},
		{[]string{"bind", "rprivate", "ro"}, unix.MOUNT_ATTR_RDONLY, 0, unix.MS_PRIVATE, []string{"rbind", "ro"}},
		{[]string{"rbind", "rslave", "rro"}, 0, unix.MOUNT_ATTR_RDONLY, unix.MS_SLAVE, []string{"rbind", "ro"}},
		{
			[]string{"rbind", "rw", "nosuid", "noexec", "ro"},
			unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC, 0, 0,
			[]string{"rbind", "rw", "nosuid", "noexec", "ro"},
		},
		{[]string{"rbind", "noatime", "nodiratime"}, unix.MOUNT_ATTR_NOATIME | unix.MOUNT_ATTR_NODIRATIME, 0, 0, []string{"rbind", "noatime", "nodiratime"}},
		{[]string{"rbind", "rshared"}, 0, 0, 0, []string{"rbind", "rshared"}},
	} {
		top, all, err := attributes(c.options)
		if err != nil || top.Attr_set != c.top || all.Attr_set != c.all || all.Propagation != c.propagation {
			t.Errorf("%v: %+v, %+v, %v", c.options, top, all, err)
		}
		if got := ofTop(c.options); !reflect.DeepEqual(got, c.left) {
			t.Errorf("%v: left are %v, want %v", c.options, got, c.left)
		}
	}
	if _, _, err := attributes([]string{"rbind", "idmap"}); !errors.Is(err, errdefs.ErrInvalidArgument) {
		t.Errorf("an option that is not known: %v", err)
	}
}
