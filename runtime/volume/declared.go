package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/runtime/untrusted"
)

// What an image declares to be a volume lies below ROOT in pods/UID/volumes/declared/CONTAINER.ATTEMPT, one directory for each
// with a number as its name. It goes with the pod, if not before.

// maxDeclared bounds the volumes that an image declares. Each is a mount, which the OCI runtime looks for among all others, and
// 50,000 of them fit in a config.
const maxDeclared = 1000

// Declared makes a directory for each path that the image of a container declares to be a volume (VOLUME of a Dockerfile)
// and that nothing else is mounted at, and returns their mounts. As with containerd, each attempt has its own, which the
// runtime fills with what the image has there, and may write to them although its root is read-only. What attempts before
// had is removed.
func (v *Volumes) Declared(
	ctx context.Context, pod *corev1.Pod, c *corev1.Container, attempt int, declared map[string]struct{}, mounts []specs.Mount, files oci.Files,
) ([]specs.Mount, error) {
	if attempt > 0 {
		if err := v.removeDeclared(ctx, pod, c.Name, attempt); err != nil {
			return nil, err
		}
	}
	if len(declared) == 0 {
		return nil, nil
	}
	covered := map[string]bool{
		"/etc/hosts": files.Hosts != "", "/etc/hostname": files.Hostname != "", "/etc/resolv.conf": files.ResolvConf != "",
		path.Clean("/" + c.TerminationMessagePath): files.TerminationLog != "",
	}
	for _, m := range mounts {
		covered[path.Clean("/"+m.Destination)] = true
	}
	var places []string
	for place := range declared {
		if place = path.Clean("/" + place); !covered[place] {
			places = append(places, place)
		}
	}
	slices.Sort(places)
	places = slices.Compact(places)
	if len(places) > maxDeclared {
		return nil, fmt.Errorf("the image declares %d volumes, more than the %d that a container may have: %w", len(places), maxDeclared,
			errdefs.ErrInvalidArgument)
	}
	var out []specs.Mount
	for i, place := range places {
		if place == "/proc" || strings.HasPrefix(place, "/proc/") {
			// An OCI runtime looks there for what it is about to start, and an image must not decide what it sees.
			return nil, fmt.Errorf("the image declares a volume at %s, which no container may have there", place)
		}
		dir := filepath.Join(v.declaredPod(string(pod.UID)), attemptOf(c.Name, attempt), strconv.Itoa(i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("volume of the image at %s: %w", place, err)
		}
		out = append(out, specs.Mount{
			Destination: place, Type: "bind", Source: dir, Options: []string{"rbind", "rprivate", "rw"},
		})
	}
	return out, nil
}

// removeDeclared removes what earlier attempts of a container had.
func (v *Volumes) removeDeclared(ctx context.Context, pod *corev1.Pod, container string, attempt int) error {
	dir := v.declaredPod(string(pod.UID))
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for _, e := range entries {
		name, number, _ := strings.Cut(e.Name(), ".")
		if n, err := strconv.Atoi(number); name != container || err != nil || n >= attempt {
			continue
		}
		if err := untrusted.Remove(ctx, filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("volumes of the image of the attempt before: %w", err)
		}
	}
	return nil
}

// LeftDeclared returns the directory of the declared volume of the image into which a path in an ended container leads, and
// where that volume was mounted. Both are empty if the path leads into none.
func (v *Volumes) LeftDeclared(pod *corev1.Pod, container string, attempt int, name string) (dir, place string) {
	of := filepath.Join(v.declaredPod(string(pod.UID)), attemptOf(container, attempt))
	entries, err := os.ReadDir(of)
	if err != nil {
		return "", ""
	}
	for _, e := range entries {
		number, isMark := strings.CutSuffix(e.Name(), oci.FilledMark)
		at, err := os.Readlink(filepath.Join(of, e.Name()))
		if !isMark || err != nil || len(at) <= len(place) {
			continue
		}
		if name == at || strings.HasPrefix(name, strings.TrimSuffix(at, "/")+"/") {
			dir, place = filepath.Join(of, number), at
		}
	}
	return dir, place
}

// DeclaredUsage returns what a container uses of the disk in volumes that its image has declared.
func (v *Volumes) DeclaredUsage(ctx context.Context, podUID, container string, attempt int) (untrusted.Used, error) {
	dir := filepath.Join(v.declaredPod(podUID), attemptOf(container, attempt))
	if _, err := os.Lstat(dir); err != nil {
		return untrusted.Used{}, nil
	}
	return untrusted.Usage(ctx, dir)
}

// DeclaredOf returns the name of the container of a pod that has a volume which its image has declared, by the root of a
// mount of it in its file system. Empty: the mount is of something else.
func DeclaredOf(pod *corev1.Pod, mountRoot string) string {
	_, below, _ := strings.Cut(mountRoot, "/"+string(pod.UID)+"/volumes/declared/")
	name, _, _ := strings.Cut(below, ".")
	return name
}

func (v *Volumes) declaredPod(uid string) string {
	return filepath.Join(v.rootPod(uid), "volumes", "declared")
}

// attemptOf names an attempt of a container. The container's name has no dot in it.
func attemptOf(container string, attempt int) string { return container + "." + strconv.Itoa(attempt) }
