package oci

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/containerd/v2/pkg/cap"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// Host is what this machine and this process can do, which limits what a container can get.
type Host struct {
	CgroupV2 bool
	// SwapLimit says that memory and swap can be limited together.
	SwapLimit bool
	// Capabilities is the bounding set of this process.
	Capabilities []string
	// OpenFiles is the hard limit of this process.
	OpenFiles uint64
	// OOMScoreAdj is that of this process; a container's is not lower unless MayLowerOOMScore.
	OOMScoreAdj      int
	MayLowerOOMScore bool
	// Memory is the machine's memory, in bytes.
	Memory int64
	// HugePages are the sizes, in bytes, that can be limited. There are none if the cgroups that OCI runtimes use lack
	// the controller; pods run all the same, as with a kubelet.
	HugePages []int64
	// Devices are the nodes below /dev, for privileged containers.
	Devices []specs.LinuxDevice
}

// ReadHost reads what this machine can do.
func ReadHost() (Host, error) {
	var h Host
	var stat unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &stat); err != nil {
		return h, fmt.Errorf("cgroups: %w", err)
	}
	h.CgroupV2 = stat.Type == unix.CGROUP2_SUPER_MAGIC
	if h.CgroupV2 {
		h.SwapLimit = true
	} else if _, err := os.Stat("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes"); err == nil {
		h.SwapLimit = true
	}
	bounding, err := boundingSet()
	if err != nil {
		return h, err
	}
	h.Capabilities = bounding
	h.MayLowerOOMScore = slices.Contains(bounding, "CAP_SYS_RESOURCE")

	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return h, fmt.Errorf("limit of open files: %w", err)
	}
	h.OpenFiles = limit.Max

	score, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return h, err
	}
	if h.OOMScoreAdj, err = strconv.Atoi(strings.TrimSpace(string(score))); err != nil {
		return h, fmt.Errorf("/proc/self/oom_score_adj: %w", err)
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return h, fmt.Errorf("memory of this machine: %w", err)
	}
	h.Memory = int64(uint64(info.Totalram) * uint64(info.Unit))
	if limitsHugePages("/sys/fs/cgroup", h.CgroupV2) {
		h.HugePages = HugePageSizes(HugePagesDir)
	}
	h.Devices, err = hostDevices("/dev")
	return h, err
}

func boundingSet() ([]string, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(status)) {
		if hex, ok := strings.CutPrefix(line, "CapBnd:"); ok {
			bits, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			if err != nil {
				return nil, fmt.Errorf("/proc/self/status: %w", err)
			}
			names, _ := cap.FromBitmap(bits)
			return names, nil
		}
	}
	return nil, fmt.Errorf("/proc/self/status has no CapBnd")
}

// hostDevices returns the device nodes, without those that each container has of its own (pts, shm, mqueue, console,
// ...).
func hostDevices(root string) ([]specs.LinuxDevice, error) {
	var out []specs.LinuxDevice
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it has gone meanwhile
		}
		if d.IsDir() {
			switch d.Name() {
			case "pts", "shm", "fd", "mqueue", ".lxc", ".lxd-mounts", ".udev":
				return filepath.SkipDir
			}
			return nil
		}
		if d.Type()&fs.ModeDevice == 0 || d.Name() == "console" || d.Name() == "ptmx" {
			return nil
		}
		var stat unix.Stat_t
		if unix.Lstat(path, &stat) != nil {
			return nil
		}
		kind := "b"
		if d.Type()&fs.ModeCharDevice != 0 {
			kind = "c"
		}
		mode := os.FileMode(stat.Mode & 0o777)
		out = append(out, specs.LinuxDevice{
			Path: path, Type: kind, Major: int64(unix.Major(stat.Rdev)), Minor: int64(unix.Minor(stat.Rdev)),
			FileMode: &mode, UID: &stat.Uid, GID: &stat.Gid,
		})
		return nil
	})
	return out, err
}
