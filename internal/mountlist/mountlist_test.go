package mountlist

import (
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
)

// A user makes lines of any length, which hide nothing of what others have mounted, and are not taken for another place.
func TestLinesOfAnyLength(t *testing.T) {
	const before, after = "36 27 0:68 / ", " rw,nosuid - fuse.x y rw,user_id=1001\n"
	plain, escaped := "/home/alice"+strings.Repeat("/x", 1<<20), "/home/alice/"+strings.Repeat(`\040`, 1<<20)
	list := before + plain + after + before + escaped + after + before + "/a" + escaped + after +
		"37 27 0:68 " + escaped + " /home/bob rw - " + strings.Repeat("t", 1<<20) + " " + strings.Repeat(`\134`, 1<<20) + " " +
		strings.Repeat("o", 1<<20) + "\n" + "38 27 0:69 / /last\\040one rw shared:1 - tmpfs tmpfs rw,size=1k\n"
	got, err := From(strings.NewReader(list), nil)
	if err != nil || len(got) != 5 {
		t.Fatal(len(got), err)
	}
	const longestName = 4095
	for _, m := range got[:2] {
		if !strings.HasPrefix(m.Mountpoint, "/home/alice/") || len(m.Mountpoint) <= longestName || m.VFSOptions != "rw,user_id=1001" || m.FSType != "fuse.x" {
			t.Errorf("%d bytes, %s, %s", len(m.Mountpoint), m.FSType, m.VFSOptions)
		}
	}
	if m := got[3]; m.ID != 37 || m.Mountpoint != "/home/bob" {
		t.Errorf("%d at %s", m.ID, m.Mountpoint)
	}
	if m := got[4]; m.ID != 38 || m.Mountpoint != "/last one" || m.Optional != "shared:1" || m.FSType != "tmpfs" || m.VFSOptions != "rw,size=1k" {
		t.Errorf("%+v", m)
	}
}

// What is of a usual length is as it was.
func TestGet(t *testing.T) {
	want, err := mountinfo.GetMounts(nil)
	if err != nil {
		t.Skip(err) // as it is on a machine where somebody does this
	}
	got, err := Get(nil)
	if err != nil {
		t.Fatal(err)
	}
	there := map[mountinfo.Info]bool{}
	for _, m := range got {
		there[*m] = true
	}
	for _, m := range want {
		if !there[*m] {
			t.Errorf("missing: %+v", m) // or mounted or unmounted meanwhile
		}
	}
	one, err := Get(mountinfo.SingleEntryFilter("/"))
	if err != nil || len(one) != 1 {
		t.Error(len(one), err)
	}
}
