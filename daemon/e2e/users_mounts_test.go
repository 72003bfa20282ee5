package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUsersAndMounts is a user of the machine in whose home something is mounted, as by FUSE, or in which the administrator has forbidden
// something. What is forbidden on the machine a pod cannot do either, nor does the end of a pod unmount anything of the machine.
func TestUsersAndMounts(t *testing.T) { hostTeam(t, usersAndMounts) }

func usersAndMounts(t *testing.T, x *team) {
	home := x.alice.home
	mount := func(place string, flags uintptr) {
		t.Helper()
		at := filepath.Join(home, place)
		if err := errors.Join(os.MkdirAll(at, 0o755), unix.Mount("tmpfs", at, "tmpfs", flags, "mode=777")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	}
	mount("stick", unix.MS_NODEV|unix.MS_NOSUID|unix.MS_NOEXEC)
	mount("kept", 0)
	if err := unix.Mount("", filepath.Join(home, "kept"), "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	shut := filepath.Join(home, "shut")
	if err := errors.Join(os.WriteFile(shut, []byte("not for the group\n"), 0o604), os.Chown(shut, 0, int(x.alice.supplementary[0]))); err != nil {
		t.Fatal(err)
	}
	volumes := fmt.Sprintf("volumes: [{name: h, hostPath: {path: %[1]s}}, {name: s, hostPath: {path: %[1]s/stick}}, {name: k, hostPath: {path: %[1]s/kept}}],", home)
	const mounts = "volumeMounts: [{name: h, mountPath: /h}, {name: s, mountPath: /s}, {name: h, mountPath: /sub, subPath: stick}, {name: k, mountPath: /k}]"
	own := strconv.Itoa(int(x.alice.gid))
	out := x.runs("looks", "securityContext: {supplementalGroups: ["+own+"]}, "+volumes, mounts,
		"grep -E ' /(s|sub) ' /proc/self/mountinfo; touch /k/x; cat /h/shut; true")
	if strings.Count(out, "nosuid,nodev,noexec") != 2 {
		t.Errorf("a mount lacks what is forbidden on the host's: %s", out)
	}
	if !strings.Contains(out, "ead-only file system") {
		t.Errorf("what is for reading only is written to: %s", out)
	}
	if strings.Contains(out, "not for the group") {
		t.Errorf("alice is not in a group that a file shuts out: %s", out)
	}
	x.alice.refused("mountPropagation: Forbidden: must be None", userPod("spreads", volumes,
		strings.Replace(mounts, "mountPath: /h", "mountPath: /h, mountPropagation: HostToContainer", 1), "id"), "create", "-f", "-")

	// What a process of hers never answers for holds up neither a pod nor the end of jobd, which nothing ends while it waits for that.
	silent := filepath.Join(home, "silent")
	server, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err == nil {
		t.Cleanup(func() { server.Close() })
		options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other", server.Fd(), x.alice.uid, x.alice.gid)
		err = errors.Join(os.Mkdir(silent, 0o755), os.Chown(silent, int(x.alice.uid), int(x.alice.gid)),
			unix.Mount("silent", silent, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options))
		t.Cleanup(func() { _ = unix.Unmount(silent, unix.MNT_DETACH) })
	}
	if err != nil {
		t.Log("without FUSE: ", err)
	} else {
		const at = "volumeMounts: [{name: h, mountPath: /h, subPath: %s}]"
		words := fmt.Sprintf("a process of user %d answers for what is mounted at", x.alice.uid)
		x.waits("silent", words, fmt.Sprintf("volumes: [{name: h, hostPath: {path: %s/a/b}}],", silent), fmt.Sprintf(at, "c"))
		x.waits("silent-below", words, volumes, fmt.Sprintf(at, "silent/a"))
		x.kill()
		x.serve()
	}

	// A symlink is put in the way to what is mounted in the home, all the time, while pods that show it end.
	host, err := os.MkdirTemp("/var/tmp", "jobd-e2e-host.")
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(host, "in")
	t.Cleanup(func() {
		_ = unix.Unmount(at, unix.MNT_DETACH)
		_ = os.RemoveAll(host)
	})
	if err := errors.Join(os.Mkdir(at, 0o755), unix.Mount("tmpfs", at, "tmpfs", 0, "")); err != nil {
		t.Fatal(err)
	}
	mount("a/in", 0)
	if err := os.Symlink(host, filepath.Join(home, "b")); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(home, "a"), unix.AT_FDCWD, filepath.Join(home, "b"), unix.RENAME_EXCHANGE)
			}
		}
	}()
	for i := range 5 {
		x.runs("ends-"+strconv.Itoa(i), volumes, mounts, "true")
	}
	close(stop)
	<-stopped
	var is, above unix.Stat_t
	if err := errors.Join(unix.Stat(at, &is), unix.Stat(host, &above)); err != nil || is.Dev == above.Dev {
		t.Errorf("a mount of the machine is gone: %v", err)
	}
	_ = unix.Unmount(filepath.Join(home, "b", "in"), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) // it may be called so by now
	for _, name := range []string{"a", "b"} {
		if is, err := os.Lstat(filepath.Join(home, name)); err == nil && is.IsDir() {
			_ = unix.Unmount(filepath.Join(home, name, "in"), unix.MNT_DETACH)
		}
	}
}
