package persistent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/mountlist"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/untrusted"
)

// makeDirectory makes the empty directory of a volume, which everybody may write to, as to one that a provisioner of
// local volumes makes in a cluster.
func (v *Volumes) makeDirectory(dir string, is *record) error {
	data := filepath.Join(dir, dataDir)
	if onBtrfs(dir) {
		if err := createSubvolume(dir, dataDir); err != nil {
			return err
		}
	} else if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	if err := unix.Chmod(data, 0o777); err != nil {
		return err
	}
	return syncDir(data)
}

// limit ensures that a directory does not grow beyond its size. If its file system cannot do that, the warning says why.
// It chooses the id of the project if there is none yet.
func (v *Volumes) limit(data string, is *record) (warning string, err error) {
	fd, err := openDir(data)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if onBtrfs(data) {
		switch err := limitSubvolume(fd, is.Size); {
		case err == nil:
			return "", nil
		case errors.Is(err, errNoSubvolume):
			return v.unlimited(data, "can limit subvolumes only, and "+err.Error()), nil
		}
		return v.unlimited(data, "quotas of btrfs are not enabled: `btrfs quota enable` enables them"), nil
	}
	if reason := projectQuotas(fd); reason != "" {
		return v.unlimited(data, reason), nil
	}
	if is.Project == 0 {
		if is.Project, err = v.chooseProject(fd, data); err != nil {
			return "", err
		}
		if err := is.write(filepath.Dir(data)); err != nil { // before it has a limit that nobody would lift
			return "", err
		}
		crash.At("persistent.project.chosen")
	}
	if !inProject(fd, is.Project) {
		// What is there already has come from elsewhere, or is from before there were quotas.
		if err := joinBelow(data, is.Project); err != nil {
			return "", fmt.Errorf("count what is in %s: %w", data, err)
		}
		if err := joinProject(fd, is.Project); err != nil {
			return v.unlimited(data, err.Error()), nil
		}
	}
	if err := limitProject(fd, is.Project, is.Size); err != nil {
		return "", fmt.Errorf("limit project %d of %s: %w", is.Project, data, err)
	}
	crash.At("persistent.project.limited")
	return "", nil
}

// unlimited words a warning.
func (v *Volumes) unlimited(data, reason string) string {
	on := "of an unknown type"
	if mounts, err := mountlist.Get(mountinfo.ParentsFilter(data)); err == nil && len(mounts) > 0 {
		last := mounts[0]
		for _, m := range mounts {
			if len(m.Mountpoint) >= len(last.Mountpoint) {
				last = m
			}
		}
		on = fmt.Sprintf("%s, mounted on %s", last.FSType, last.Mountpoint)
	}
	return fmt.Sprintf("the capacity of the volume is not enforced: its file system (%s) %s", on, reason)
}

// removeData removes a volume's directory and lifts its limit.
func removeData(ctx context.Context, data string, is *record) error {
	if onBtrfs(data) {
		// With all that is in it, unless that has subvolumes of its own.
		_ = destroySubvolume(filepath.Dir(data), filepath.Base(data))
	}
	if err := untrusted.Remove(ctx, data); err != nil {
		return err
	}
	if is.Project == 0 {
		return nil
	}
	fd, err := openDir(filepath.Dir(data))
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if projectQuotas(fd) == "" {
		return limitProject(fd, is.Project, 0)
	}
	return nil
}

func openDir(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}
