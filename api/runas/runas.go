// Package runas says as whom the pods of a namespace run: the user and the groups of the host in the namespace's annotation, which
// only an administrator may write. A pod that says nothing about its users gets them, and one that asks for others is refused: what
// it then does to files of the host, it does as that user, whatever its image brings. Nothing but the objects is looked at.
package runas

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/hostimage"
	"github.com/jobd/jobd/api/podspec"
)

const (
	// Annotation of a Namespace is the user and the groups of the host as whom all of its pods run, by their numbers, the user's own
	// group first: "1000:1000,27,44".
	Annotation = "jobd.dev/run-as"
	// UserAnnotation of a Namespace names the user of this machine whom it belongs to.
	UserAnnotation = "jobd.dev/user"
	// NamespaceExtra is what such a user is told of itself beside its name: the namespace that it has.
	NamespaceExtra = "jobd.dev/namespace"
)

// maxIDs is the largest number of a user or group: the kernel takes the last one for none.
const maxIDs = math.MaxUint32 - 1

// maxMapped is how many users a pod has in a user namespace of its own.
const maxMapped = 65536

// Identity is a user of the host and the groups that it is in, of which the first is its own.
type Identity struct {
	UID    uint32
	Groups []uint32
}

// String returns it as the annotation has it.
func (id Identity) String() string {
	groups := make([]string, len(id.Groups))
	for i, g := range id.Groups {
		groups[i] = strconv.FormatUint(uint64(g), 10)
	}
	return fmt.Sprintf("%d:%s", id.UID, strings.Join(groups, ","))
}

// Of returns as whom the pods of a namespace run; nil if they choose for themselves. An annotation that cannot be read is an error.
func Of(ns *corev1.Namespace) (*Identity, error) {
	value, ok := ns.Annotations[Annotation]
	if !ok {
		return nil, nil
	}
	id, err := parse(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Annotation, err)
	}
	return &id, nil
}

// UserOf returns the user of this machine whom a namespace belongs to, by name and numbers; nil if it is nobody's.
func UserOf(ns *corev1.Namespace) (name string, id *Identity, err error) {
	name = ns.Annotations[UserAnnotation]
	if name == "" {
		return "", nil, nil
	}
	id, err = Of(ns)
	return name, id, err
}

// Validate checks the annotation of a Namespace.
func Validate(ns *corev1.Namespace) field.ErrorList {
	if _, err := Of(ns); err != nil {
		at := field.NewPath("metadata", "annotations").Key(Annotation)
		return field.ErrorList{field.Invalid(at, ns.Annotations[Annotation], strings.TrimPrefix(err.Error(), Annotation+": "))}
	}
	return nil
}

func parse(value string) (id Identity, err error) {
	uid, groups, ok := strings.Cut(value, ":")
	if !ok {
		return id, fmt.Errorf("%q is not of the form USER:GROUP,GROUP with numbers", value)
	}
	if id.UID, err = number(uid); err != nil {
		return id, err
	}
	if id.UID == 0 {
		return id, fmt.Errorf("the pods of a namespace cannot be made to run as root")
	}
	for g := range strings.SplitSeq(groups, ",") {
		gid, err := number(g)
		if err != nil {
			return id, err
		}
		id.Groups = append(id.Groups, gid)
	}
	return id, nil
}

func number(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n > maxIDs {
		return 0, fmt.Errorf("%q is not the number of a user or group", text)
	}
	return uint32(n), nil
}

// Has reports whether a group is among those of the identity.
func (id *Identity) Has(gid int64) bool {
	return gid >= 0 && gid <= maxIDs && slices.Contains(id.Groups, uint32(gid))
}

// mapped reports whether a pod with users of its own has the user and all groups.
func (id *Identity) mapped() bool {
	return id.UID < maxMapped && !slices.ContainsFunc(id.Groups, func(g uint32) bool { return g >= maxMapped })
}

// Fill gives a new pod the user and the groups, as far as it names none itself, and takes from its containers what would let them
// become somebody else.
func (id *Identity) Fill(spec *corev1.PodSpec) {
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	c := spec.SecurityContext
	fill(&c.RunAsUser, int64(id.UID))
	fill(&c.RunAsGroup, int64(id.Groups[0]))
	fill(&c.FSGroup, int64(id.Groups[0]))
	if c.SupplementalGroups == nil {
		for _, g := range id.Groups[1:] {
			c.SupplementalGroups = append(c.SupplementalGroups, int64(g))
		}
	}
	// By the other policy an image puts its user into groups, by its own /etc/group.
	fill(&c.SupplementalGroupsPolicy, corev1.SupplementalGroupsPolicyStrict)
	if !id.mapped() && spec.HostUsers == nil {
		spec.HostUsers = ptr.To(true) // where the default is a user namespace, it would not start
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			confine(&list[i].SecurityContext)
		}
	}
	id.FillEphemeral(spec, nil)
}

// FillEphemeral does for the ephemeral containers of a pod what Fill does for the others, but for those that it has had before. The
// pod itself may be older than the annotation, and say nothing.
func (id *Identity) FillEphemeral(spec *corev1.PodSpec, before []corev1.EphemeralContainer) {
	for i := range spec.EphemeralContainers {
		c := &spec.EphemeralContainers[i]
		if slices.ContainsFunc(before, func(b corev1.EphemeralContainer) bool { return b.Name == c.Name }) {
			continue
		}
		confine(&c.SecurityContext)
		fill(&c.SecurityContext.RunAsUser, int64(id.UID))
		fill(&c.SecurityContext.RunAsGroup, int64(id.Groups[0]))
	}
}

// confine keeps a container from getting more rights by the programs of its image: those that are setuid or have capabilities get
// none (no_new_privs).
func confine(c **corev1.SecurityContext) {
	if *c == nil {
		*c = &corev1.SecurityContext{}
	}
	if !ptr.Deref((*c).Privileged, false) { // which is refused in words of its own
		fill(&(*c).AllowPrivilegeEscalation, false)
	}
	if (*c).Capabilities == nil {
		(*c).Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
	}
}

func fill[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

// Check returns what in a spec asks for another user or group, or for a way to become one. What a template leaves out, its pods
// get; whole says that it is the spec of a pod, which has to say it.
func (id *Identity) Check(spec *corev1.PodSpec, at *field.Path, whole bool) (errs field.ErrorList) {
	c, in := spec.SecurityContext, at.Child("securityContext")
	if c == nil {
		c = &corev1.PodSecurityContext{}
	}
	errs = append(errs, id.user(c.RunAsUser, in.Child("runAsUser"), whole)...)
	errs = append(errs, id.group(c.RunAsGroup, in.Child("runAsGroup"), whole)...)
	errs = append(errs, id.group(c.FSGroup, in.Child("fsGroup"), false)...)
	for i := range c.SupplementalGroups {
		errs = append(errs, id.group(&c.SupplementalGroups[i], in.Child("supplementalGroups").Index(i), false)...)
	}
	strict := corev1.SupplementalGroupsPolicyStrict
	if p := c.SupplementalGroupsPolicy; p == nil && whole || p != nil && *p != strict {
		errs = append(errs, field.Forbidden(in.Child("supplementalGroupsPolicy"),
			fmt.Sprintf("must be %s in this namespace: with another one the image chooses groups", strict)))
	}
	for _, of := range []struct {
		name string
		set  bool
	}{{"hostNetwork", spec.HostNetwork && !hostimage.Uses(spec)}, {"hostPID", spec.HostPID}, {"hostIPC", spec.HostIPC}} {
		if of.set {
			errs = append(errs, field.Forbidden(at.Child(of.name), "must be false in this namespace"))
		}
	}
	for i := range spec.Volumes {
		if spec.Volumes[i].NFS != nil {
			errs = append(errs, field.Forbidden(at.Child("volumes").Index(i).Child("nfs"),
				"is mounted by root from any server: in this namespace mount it on the host, where an administrator can list it"))
		}
	}
	podspec.Each(spec, at, func(c *corev1.Container, at *field.Path) {
		for i := range c.VolumeMounts {
			if p := c.VolumeMounts[i].MountPropagation; p != nil && *p != corev1.MountPropagationNone {
				errs = append(errs, field.Forbidden(at.Child("volumeMounts").Index(i).Child("mountPropagation"),
					"must be None in this namespace: what a user mounts would be mounted by root for each pod once more"))
			}
		}
	})
	for i := range spec.InitContainers {
		errs = append(errs, id.container(spec.InitContainers[i].SecurityContext, at.Child("initContainers").Index(i), false, whole)...)
	}
	for i := range spec.Containers {
		errs = append(errs, id.container(spec.Containers[i].SecurityContext, at.Child("containers").Index(i), false, whole)...)
	}
	return append(errs, id.CheckEphemeral(spec, nil, at)...)
}

// CheckEphemeral is Check for the ephemeral containers of a pod, but for those that it has had before.
func (id *Identity) CheckEphemeral(spec *corev1.PodSpec, before []corev1.EphemeralContainer, at *field.Path) (errs field.ErrorList) {
	for i := range spec.EphemeralContainers {
		c := &spec.EphemeralContainers[i]
		if slices.ContainsFunc(before, func(b corev1.EphemeralContainer) bool { return b.Name == c.Name }) {
			continue
		}
		errs = append(errs, id.container(c.SecurityContext, at.Child("ephemeralContainers").Index(i), true, true)...)
	}
	return errs
}

// container checks a container, which has to name the user itself if alone is set.
func (id *Identity) container(c *corev1.SecurityContext, at *field.Path, alone, whole bool) (errs field.ErrorList) {
	at = at.Child("securityContext")
	if c == nil {
		c = &corev1.SecurityContext{}
	}
	errs = append(errs, id.user(c.RunAsUser, at.Child("runAsUser"), alone)...)
	errs = append(errs, id.group(c.RunAsGroup, at.Child("runAsGroup"), alone)...)
	if ptr.Deref(c.Privileged, false) {
		errs = append(errs, field.Forbidden(at.Child("privileged"), "must be false in this namespace"))
	}
	if ptr.Deref(c.AllowPrivilegeEscalation, whole) {
		errs = append(errs, field.Forbidden(at.Child("allowPrivilegeEscalation"),
			"must be false in this namespace: setuid programs of the image would get the files of others"))
	}
	if c.Capabilities != nil && len(c.Capabilities.Add) > 0 {
		errs = append(errs, field.Forbidden(at.Child("capabilities", "add"), "must be empty in this namespace"))
	}
	return errs
}

func (id *Identity) user(uid *int64, at *field.Path, needed bool) field.ErrorList {
	if uid == nil && !needed || uid != nil && *uid == int64(id.UID) {
		return nil
	}
	return field.ErrorList{field.Forbidden(at, fmt.Sprintf("must be %d: the pods of this namespace run as its user", id.UID))}
}

func (id *Identity) group(gid *int64, at *field.Path, needed bool) field.ErrorList {
	if gid == nil && !needed || gid != nil && id.Has(*gid) {
		return nil
	}
	groups := strings.ReplaceAll(strings.TrimPrefix(id.String(), strconv.Itoa(int(id.UID))+":"), ",", ", ")
	return field.ErrorList{field.Forbidden(at, "must be among the groups of this namespace's user: "+groups)}
}
