package oci

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/sys/user"
	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

const strict = corev1.SupplementalGroupsPolicyStrict

// processUser returns the user that the container runs as, as far as the pod and the image's config say. What only the
// image's files say (the number behind a name, the primary group, further groups) is left in Username, in the form USER
// or USER:GROUP, for ResolveUser.
func processUser(in Input) (specs.User, error) {
	pod, c := podSecurity(in.Pod), security(in.Container)
	name, group, _ := strings.Cut(in.Image.User, ":")
	if uid := firstSet(c.RunAsUser, pod.RunAsUser); uid != nil {
		name, group = strconv.FormatInt(*uid, 10), ""
		if *uid == 0 && runAsNonRoot(in) {
			return specs.User{}, invalid("container's runAsUser breaks non-root policy %s", describe(in))
		}
	} else if runAsNonRoot(in) {
		if uid, err := strconv.ParseInt(name, 10, 64); name != "" && err != nil {
			return specs.User{}, invalid("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root %s",
				name, describe(in))
		} else if uid == 0 {
			return specs.User{}, invalid("container has runAsNonRoot and image will run as root %s", describe(in))
		}
	}
	if gid := firstSet(c.RunAsGroup, pod.RunAsGroup); gid != nil {
		group = strconv.FormatInt(*gid, 10)
	}
	if name == "" {
		name = "0"
	}
	out := specs.User{Username: name}
	if group != "" {
		out.Username += ":" + group
	}
	for _, gid := range pod.SupplementalGroups {
		out.AdditionalGids = append(out.AdditionalGids, uint32(gid))
	}
	if pod.FSGroup != nil {
		out.AdditionalGids = append(out.AdditionalGids, uint32(*pod.FSGroup))
	}
	return out, nil
}

// ResolveUser replaces Process.User.Username by numbers, according to /etc/passwd and /etc/group of the image, either
// of which may be nil when the image has none. A user that is in no /etc/passwd is at home in /. Without a Username nothing
// is done.
func ResolveUser(spec *specs.Spec, passwd, group io.Reader) error {
	u := &spec.Process.User
	if u.Username == "" {
		return nil
	}
	name, groupName, hasGroup := strings.Cut(u.Username, ":")
	groups, err := parseGroups(group)
	if err != nil {
		return fmt.Errorf("/etc/group of the image: %w", err)
	}
	// Without a group: that is what makes the groups of the user be looked up too.
	found, err := user.GetExecUser(name, &user.ExecUser{Home: noHome}, passwd, groups.reader())
	if err != nil {
		return fmt.Errorf("user %q of the image: %w: %w", name, err, errdefs.ErrInvalidArgument)
	}
	if hasGroup {
		primary, err := user.GetExecUser(":"+groupName, nil, nil, groups.reader())
		if err != nil {
			return fmt.Errorf("group %q of the image: %w: %w", groupName, err, errdefs.ErrInvalidArgument)
		}
		found.Gid = primary.Gid
	}
	if found.Home == noHome && !hasHome(spec) {
		spec.Process.Env = append(spec.Process.Env, "HOME="+noHome)
	}
	u.Username, u.UID, u.GID = "", uint32(found.Uid), uint32(found.Gid)
	all := []uint32{u.GID}
	if spec.Annotations[annotationGroupsPolicy] != string(strict) {
		for _, gid := range found.Sgids {
			all = append(all, uint32(gid))
		}
	}
	all = append(all, u.AdditionalGids...)
	u.AdditionalGids = nil
	// An image may have as many groups as the kernel takes.
	known := sets.New[uint32]()
	for _, gid := range all { // in the order in which clusters have and show them
		if !known.Has(gid) {
			u.AdditionalGids = append(u.AdditionalGids, gid)
		}
		known.Insert(gid)
	}
	return mapped(spec)
}

// noHome is the home of a user without an entry in /etc/passwd. runc says so by itself, and crun leaves HOME unset.
const noHome = "/"

// hasHome reports whether a container's HOME is known already, or is found by the OCI runtime: in an /etc/passwd that is
// not the image's own.
func hasHome(spec *specs.Spec) bool {
	isHome := func(v string) bool { return strings.HasPrefix(v, "HOME=") }
	isPasswd := func(m specs.Mount) bool { return m.Destination == "/etc/passwd" || m.Destination == "/etc" }
	return slices.ContainsFunc(spec.Process.Env, isHome) || slices.ContainsFunc(spec.Mounts, isPasswd)
}

// mapped refuses a user and groups that a pod's own user namespace does not have: a process that has one of them cannot
// be made.
func mapped(spec *specs.Spec) error {
	if spec.Linux == nil || len(spec.Linux.UIDMappings) == 0 {
		return nil
	}
	refuse := func(what string, id, most uint32) error {
		return fmt.Errorf("%s %d is beyond the %d that a user namespace of the pod's own has (hostUsers: true gives it the host's): %w",
			what, id, most, errdefs.ErrInvalidArgument)
	}
	u := &spec.Process.User
	if most := spec.Linux.UIDMappings[0].Size; u.UID >= most {
		return refuse("user", u.UID, most)
	}
	for _, gid := range u.AdditionalGids { // the primary one too
		if most := spec.Linux.GIDMappings[0].Size; gid >= most {
			return refuse("group", gid, most)
		}
	}
	return nil
}

// groupFile is the content of /etc/group, which is read twice.
type groupFile struct{ content *string }

func parseGroups(r io.Reader) (groupFile, error) {
	if r == nil {
		return groupFile{}, nil
	}
	data, err := io.ReadAll(r)
	content := string(data)
	return groupFile{&content}, err
}

func (g groupFile) reader() io.Reader {
	if g.content == nil {
		return nil
	}
	return strings.NewReader(*g.content)
}

func runAsNonRoot(in Input) bool {
	if c := security(in.Container).RunAsNonRoot; c != nil {
		return *c
	}
	return isTrue(podSecurity(in.Pod).RunAsNonRoot)
}

func firstSet(a, b *int64) *int64 {
	if a != nil {
		return a
	}
	return b
}
