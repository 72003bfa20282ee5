package sandbox

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/sys/mountinfo"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/hostimage"
	"github.com/jobd/jobd/api/runas"
	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/internal/mountlist"
	"github.com/jobd/jobd/internal/nss"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/oci"
)

// HostImages are images, and the reserved one that is none: it is never looked for.
type HostImages struct{ worker.Images }

// Ensure implements worker.Images.
func (h HostImages) Ensure(
	ctx context.Context, ref string, policy corev1.PullPolicy, secrets *runtime.PullSecrets, progress func(string),
) (runtime.Image, error) {
	if hostimage.Is(ref) {
		return runtime.Image{Name: ref}, nil
	}
	return h.Images.Ensure(ctx, ref, policy, secrets, progress)
}

// HostCommands makes what containers of the reserved image have instead of an image.
type HostCommands struct {
	Objects Objects
	// Files is the directory at which containers find the host's files, and Program is jobd-shim.
	Files, Program string
	// Root says that root may run commands of the host.
	Root bool
	// Lookup finds a user of the host.
	Lookup func(ctx context.Context, uid uint32) (nss.User, error)
}

// HostUser rejects pods whose user this machine does not have any more, or that need a group which that user has left: those of the
// reserved image, and all others in namespaces of users of the machine. It sets nothing up.
func HostUser(h HostCommands) worker.Step {
	return worker.Step{
		Name: "host-user", Reason: "HostUserGone",
		SetUp: func(ctx context.Context, p *corev1.Pod, _ *worker.Sandbox) error {
			var err error
			if hostimage.Uses(&p.Spec) {
				_, err = h.user(ctx, p, nil)
			} else {
				_, err = h.Objects.inGroups(p)
			}
			if errdefs.IsNotFound(err) || errdefs.IsPermissionDenied(err) {
				return &worker.Rejection{Err: err}
			}
			return err
		},
		TearDown: func(context.Context, types.UID) error { return nil },
	}
}

// hostUser is a user of the host, as a container runs.
type hostUser struct {
	nss.User
	gid  uint32 // which may be another one of the groups
	root bool   // it may be anybody, since an administrator says so
}

// user returns as whom a container of a pod, or with nil the pod itself, runs a command of the host. Whose the namespace is says who;
// which groups that user has the machine says, each time, so that one that was left is not given any more.
func (h HostCommands) user(ctx context.Context, p *corev1.Pod, c *corev1.Container) (hostUser, error) {
	ns, err := h.Objects.namespace(p.Namespace)
	if err != nil {
		return hostUser{}, err
	}
	name, id, err := runas.UserOf(ns)
	switch {
	case err != nil:
		return hostUser{}, err
	case id == nil && !h.Root:
		return hostUser{}, fmt.Errorf("the namespace %s belongs to no user of this machine, and the setting host-root is off: %w", ns.Name, errdefs.ErrPermissionDenied)
	}
	asked := ptr.Deref(p.Spec.SecurityContext, corev1.PodSecurityContext{})
	uid, gid := asked.RunAsUser, asked.RunAsGroup
	if c != nil && c.SecurityContext != nil {
		uid, gid = first(c.SecurityContext.RunAsUser, uid), first(c.SecurityContext.RunAsGroup, gid)
	}
	number := uint32(ptr.Deref(uid, 0))
	if id != nil {
		number = id.UID
	}
	found, err := userNow(ctx, h.Lookup, number, name)
	if err != nil {
		return hostUser{}, err
	}
	u := hostUser{User: found, gid: found.Groups[0].GID, root: id == nil}
	if gid == nil || uint32(*gid) == u.gid {
		return u, nil
	}
	if u.gid = uint32(*gid); !u.root && !slices.ContainsFunc(found.Groups, func(g nss.Group) bool { return g.GID == u.gid }) {
		return hostUser{}, fmt.Errorf("user %s of this machine is not in group %d any more: %w", found.Name, u.gid, errdefs.ErrPermissionDenied)
	}
	return u, nil
}

func first(a, b *int64) *int64 {
	if a != nil {
		return a
	}
	return b
}

// of returns what a container has instead of an image; nil if it has one.
func (h HostCommands) of(ctx context.Context, p *corev1.Pod, c *corev1.Container) (*oci.HostCommand, error) {
	if !hostimage.Is(c.Image) {
		return nil, nil
	}
	u, err := h.user(ctx, p, c)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(h.Files, 0o700); err != nil {
		return nil, err
	}
	out := &oci.HostCommand{
		Files: h.Files, Program: h.Program, User: specs.User{UID: u.UID, GID: u.gid}, Root: u.root,
		Env: []string{"HOME=" + u.Home, "USER=" + u.Name, "LOGNAME=" + u.Name},
	}
	for _, g := range u.Groups {
		out.User.AdditionalGids = append(out.User.AdditionalGids, g.GID)
	}
	out.Dirs, err = hostDirs()
	return out, err
}

// hostDirs returns the directories in the host's root, each with the options of the mount that it is, or is in: an OCI runtime may take
// away those that it is not told of.
func hostDirs() (map[string][]string, error) {
	entries, err := os.ReadDir("/")
	if err != nil {
		return nil, err
	}
	mounts, err := mountlist.Get(func(m *mountinfo.Info) (skip, stop bool) {
		return strings.Count(m.Mountpoint, "/") > 1, false
	})
	if err != nil {
		return nil, fmt.Errorf("mounts of the host: %w", err)
	}
	options := map[string][]string{} // of what is mounted last at a place
	for _, m := range mounts {
		options[m.Mountpoint] = bindOptions(m.Options)
	}
	out := map[string][]string{}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		out[e.Name()] = options["/"]
		if own, ok := options["/"+e.Name()]; ok {
			out[e.Name()] = own
		}
	}
	return out, nil
}

// likeTmp gives the volume of a container's /tmp the mode that programs expect there: some use no directory in which others could remove
// their files.
func likeTmp(spec *specs.Spec) error {
	for _, m := range spec.Mounts {
		if path.Clean(m.Destination) == hostimage.TmpDir {
			return unix.Chmod(m.Source, 0o1777) // a directory of jobd's own
		}
	}
	return nil
}

// bindOptions returns those of a mount's options that a bind mount has.
func bindOptions(of string) (options []string) {
	for o := range strings.SplitSeq(of, ",") {
		switch o {
		case "ro", "nosuid", "nodev", "noexec", "noatime", "nodiratime", "relatime":
			options = append(options, o)
		}
	}
	return options
}
