package thread

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// AsUser is Run with the rights to files of a user of the host who is in these groups, the first being the user's own. The
// kernel asks the thread for them, and an NFS server sees them. What fn opens any thread can use later.
func AsUser(uid uint32, groups []uint32, fn func() error) error {
	return Run(func() error {
		all := make([]int, len(groups))
		for i, g := range groups {
			all[i] = int(g)
		}
		if err := unix.Setgroups(all); err != nil { // of this thread alone
			return fmt.Errorf("take the groups of user %d: %w", uid, err)
		}
		// These say what there was before, not whether they have worked. With the user the kernel takes the capabilities for files.
		unix.SetfsgidRetGid(int(groups[0]))
		unix.SetfsuidRetUid(int(uid))
		gid, _ := unix.SetfsgidRetGid(-1)
		now, _ := unix.SetfsuidRetUid(-1)
		if uint32(now) != uid || uint32(gid) != groups[0] {
			return fmt.Errorf("become user %d with group %d for files: %w", uid, groups[0], unix.EPERM)
		}
		return fn()
	})
}
