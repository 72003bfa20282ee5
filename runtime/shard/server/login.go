package server

import (
	"context"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/thread"
)

// asLogin launches a process that the kernel's audit log has as begun by a login of a user, with all that it begins. A process without a
// login could say itself whose it is, as the programs do that let people in, and would be somebody else from then on, to auditors and to
// getlogin(3). It happens on a thread of its own, since a thread that has a login may never get another one, and nothing that is launched
// for others may have it.
func (l *launcher) asLogin(ctx context.Context, p launch) launched {
	done := make(chan launched, 1)
	thread.Start(func() {
		setSlack(l.slack)
		_ = unix.Unshare(unix.CLONE_FS) // as addThread
		setLogin(*p.login)
		var r launched
		r.pid, r.root, r.err = l.inside(ctx, &launchThread{}, p)
		done <- r
		<-p.over // the process is killed when the thread ends
	})
	return <-done
}

// setLogin gives the calling thread a login. It fails where the kernel keeps no audit log, or the shard has a login itself that may not be
// changed: then a container has that one, and cannot change it either.
func setLogin(uid uint32) {
	_ = os.WriteFile("/proc/thread-self/loginuid", strconv.AppendUint(nil, uint64(uid), 10), 0)
}
