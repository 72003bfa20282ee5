package host

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/systemd"
	"github.com/jobd/jobd/runtime/cgroup"
)

// Place is what kind of host this is, as far as it matters for what helps.
type Place string

// The places. A machine of any kind is the empty one.
const (
	InContainer Place = "container"
	InWSL       Place = "WSL"
)

// Where returns the place that this process runs in.
func Where() Place {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err == nil && strings.Contains(strings.ToLower(unix.ByteSliceToString(uts.Release[:])), "microsoft") {
		return InWSL
	}
	// Docker, podman and systemd-nspawn make one of these files.
	for _, file := range []string{"/.dockerenv", "/run/.containerenv", "/run/systemd/container"} {
		if _, err := os.Stat(file); err == nil {
			return InContainer
		}
	}
	return ""
}

// Needs returns an error if this host lacks something without which no container can run. It says what is missing, what that
// costs, and the command that helps.
func Needs() error {
	n := needs{uid: os.Geteuid(), place: Where(), admin: true, groups: true, systemd: systemd.Runs()}
	header, data := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	if err := unix.Capget(&header, &data[0]); err == nil {
		n.admin = data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
	}
	if groups, err := cgroup.Find(); err == nil {
		n.groups, n.readOnly = groups.Describe() != "", groups.ReadOnly()
	}
	return n.lack()
}

// needs is what Needs has seen.
type needs struct {
	uid   int
	place Place
	// admin is the capability CAP_SYS_ADMIN; groups that control groups are mounted.
	admin, groups, readOnly bool
	systemd                 bool // runs the services of the machine
}

func (n needs) lack() error {
	help := "as root: mount -t cgroup2 cgroup /sys/fs/cgroup (systemd, where it runs, does this when the host starts)"
	switch n.place {
	case InContainer:
		help = "this is a container, which must be started with: docker run --privileged --cgroupns=host (or podman run)"
	case InWSL:
		help = "this is WSL: write systemd=true below [boot] in /etc/wsl.conf, and run in Windows: wsl --shutdown"
	}
	switch {
	case n.uid != 0:
		return fmt.Errorf("this is uid %d, and jobd must run as root, since it starts containers: sudo jobd serve "+
			"(only --runtime simulated does without)", n.uid)
	case !n.admin && n.place == "":
		help := "start jobd from a root shell (sudo -i)"
		if n.systemd {
			help += ", or as the service: systemctl start jobd"
		}
		return fmt.Errorf("this root lacks the capability CAP_SYS_ADMIN, without which no container can be made: %s", help)
	case !n.admin:
		return fmt.Errorf("this root lacks the capability CAP_SYS_ADMIN, without which no container can be made: %s", help)
	case !n.groups:
		return fmt.Errorf("no control groups are mounted at /sys/fs/cgroup, so containers could be neither limited nor ended: %s", help)
	case n.readOnly && n.place == "":
		return errors.New("the control groups below /sys/fs/cgroup are read-only, so containers could be neither limited nor ended: " +
			"mount -o remount,rw /sys/fs/cgroup")
	case n.readOnly:
		return fmt.Errorf("the control groups below /sys/fs/cgroup are read-only, so containers could be neither limited nor ended: %s", help)
	}
	return nil
}
