// Package hostimage has the rules of the reserved image jobd.dev/host, which is no image: a container of it runs a command of this
// machine, with the machine's own files. They are never pulled, and a cluster, which knows nothing of this, cannot pull them either.
//
// The process is to be as powerful as the shell of its user, and not more. So what would have anything made, mounted or changed in the
// machine's files is refused here, by the names of fields; who may use the image at all is up to packages creation and admit. Nothing
// but the objects is looked at.
package hostimage

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/podspec"
)

// Name is what stands in the place of an image. It has neither tag nor digest.
const Name = "jobd.dev/host"

const (
	// TmpDir is the pod's own, whatever the machine has there.
	TmpDir = "/tmp"
	// VolumesDir is where volumes may be mounted, each directly below: nothing of the machine is there.
	VolumesDir = "/jobd"

	tmpVolume  = "jobd-tmp"
	messageLog = corev1.TerminationMessagePathDefault
)

// Is reports whether an image is the reserved one.
func Is(image string) bool { return image == Name }

// Uses reports whether a pod has a container of the reserved image.
func Uses(spec *corev1.PodSpec) bool {
	for c := range podspec.Containers(spec) {
		if Is(c.Image) {
			return true
		}
	}
	return false
}

// Fill gives a new pod of the reserved image what it has in any case: the network of the machine, a /tmp of its own, no users of its own,
// and nothing that lets a process become more than its user.
func Fill(spec *corev1.PodSpec) {
	spec.HostNetwork = true
	if spec.HostUsers == nil {
		spec.HostUsers = ptr.To(true) // where the default is a user namespace, the files of the machine would have other owners
	}
	if spec.AutomountServiceAccountToken == nil {
		spec.AutomountServiceAccountToken = ptr.To(false) // a user has a socket
	}
	spec.EnableServiceLinks = ptr.To(false)
	needed := false
	for c := range podspec.Workload(spec) {
		if c.SecurityContext == nil {
			c.SecurityContext = &corev1.SecurityContext{}
		}
		if c.SecurityContext.AllowPrivilegeEscalation == nil && !ptr.Deref(c.SecurityContext.Privileged, false) {
			c.SecurityContext.AllowPrivilegeEscalation = ptr.To(false)
		}
		if c.SecurityContext.Capabilities == nil {
			c.SecurityContext.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
		}
		if !mounts(c, TmpDir) {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: tmpVolume, MountPath: TmpDir})
			needed = true
		}
	}
	for i := range spec.Volumes {
		needed = needed && spec.Volumes[i].Name != tmpVolume
	}
	if needed {
		spec.Volumes = append(spec.Volumes, corev1.Volume{
			Name: tmpVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		})
	}
}

func mounts(c *corev1.Container, place string) bool {
	for i := range c.VolumeMounts {
		if path.Clean(c.VolumeMounts[i].MountPath) == place {
			return true
		}
	}
	return false
}

// CheckNames returns where a spec means the reserved image and does not say so, or names it where there can be none.
func CheckNames(spec *corev1.PodSpec, at *field.Path) (errs field.ErrorList) {
	tagged := func(image string) bool {
		return strings.HasPrefix(image, Name+":") || strings.HasPrefix(image, Name+"@")
	}
	podspec.Each(spec, at, func(c *corev1.Container, at *field.Path) {
		if tagged(c.Image) {
			errs = append(errs, field.Invalid(at.Child("image"), c.Image, "the reserved image "+Name+" has neither tag nor digest"))
		}
	})
	for i := range spec.Volumes {
		if v := spec.Volumes[i].Image; v != nil && (Is(v.Reference) || tagged(v.Reference)) {
			errs = append(errs, field.Forbidden(at.Child("volumes").Index(i).Child("image", "reference"), "the reserved image "+Name+" is no volume"))
		}
	}
	return errs
}

// Check returns what in a spec with the reserved image cannot be. What a template leaves out, its pods get; whole says that it is
// the spec of a pod. root says that it may run as root, which may have more than others.
func Check(spec *corev1.PodSpec, at *field.Path, whole, root bool) (errs field.ErrorList) {
	forbid := func(at *field.Path, why string, args ...any) {
		errs = append(errs, field.Forbidden(at, fmt.Sprintf(why+" with the image "+Name, args...)))
	}
	volumes := map[string]*corev1.Volume{}
	for i := range spec.Volumes {
		volumes[spec.Volumes[i].Name] = &spec.Volumes[i]
	}
	for _, of := range []struct {
		name string
		set  bool
		why  string
	}{
		{"hostNetwork", whole && !spec.HostNetwork, "must be true"},
		{"hostPID", spec.HostPID, "must be false"},
		{"hostIPC", spec.HostIPC, "must be false"},
		{"hostUsers", !ptr.Deref(spec.HostUsers, !whole), "must be true: in a user namespace files would have other owners,"},
		{"automountServiceAccountToken", ptr.Deref(spec.AutomountServiceAccountToken, whole), "must be false"},
		{"hostAliases", len(spec.HostAliases) > 0, "must be empty: the machine's own files are used"},
		{"dnsConfig", spec.DNSConfig != nil, "must be empty: the machine's own files are used"},
		{"ephemeralContainers", len(spec.EphemeralContainers) > 0, "must be empty"},
	} {
		if of.set {
			forbid(at.Child(of.name), of.why)
		}
	}
	if c := spec.SecurityContext; c != nil {
		if len(c.Sysctls) > 0 {
			forbid(at.Child("securityContext", "sysctls"), "must be empty")
		}
		if c.SELinuxOptions != nil {
			forbid(at.Child("securityContext", "seLinuxOptions"), "must be empty")
		}
	}
	podspec.Each(spec, at, func(c *corev1.Container, at *field.Path) {
		if !Is(c.Image) {
			forbid(at.Child("image"), "must be %s in all containers of a pod, if it is in one", Name)
			return
		}
		if len(c.Ports) > 0 {
			forbid(at.Child("ports"), "must be empty: the network is the machine's,")
		}
		if len(c.VolumeDevices) > 0 {
			forbid(at.Child("volumeDevices"), "must be empty")
		}
		if c.TerminationMessagePath != "" && c.TerminationMessagePath != messageLog {
			forbid(at.Child("terminationMessagePath"), "must be %s", messageLog)
		}
		if whole && !mounts(c, TmpDir) {
			forbid(at.Child("volumeMounts"), "must have one of an emptyDir at %s", TmpDir)
		}
		for i := range c.VolumeMounts {
			m, at := &c.VolumeMounts[i], at.Child("volumeMounts").Index(i)
			place := path.Clean(m.MountPath)
			switch v := volumes[m.Name]; {
			case place == TmpDir:
				if v != nil && v.EmptyDir == nil || m.SubPath != "" || m.SubPathExpr != "" {
					forbid(at.Child("mountPath"), "%s must be of an emptyDir, without a subPath,", TmpDir)
				}
			case path.Dir(place) != VolumesDir:
				// The OCI runtime would make the place as root, in the machine's own files; and symlinks may lead anywhere from what a user has written.
				forbid(at.Child("mountPath"), "must be %s or %s/NAME: files of the machine are where they are,", TmpDir, VolumesDir)
			}
		}
		checkSecurity(c.SecurityContext, at.Child("securityContext"), whole, root, forbid)
	})
	return errs
}

func checkSecurity(c *corev1.SecurityContext, at *field.Path, whole, root bool, forbid func(*field.Path, string, ...any)) {
	if c == nil {
		c = &corev1.SecurityContext{}
	}
	if ptr.Deref(c.Privileged, false) {
		forbid(at.Child("privileged"), "must be false")
	}
	if ptr.Deref(c.ReadOnlyRootFilesystem, false) {
		forbid(at.Child("readOnlyRootFilesystem"), "must be false")
	}
	if c.SELinuxOptions != nil {
		forbid(at.Child("seLinuxOptions"), "must be empty")
	}
	if ptr.Deref(c.ProcMount, corev1.DefaultProcMount) != corev1.DefaultProcMount {
		forbid(at.Child("procMount"), "must be Default")
	}
	if root {
		return
	}
	if ptr.Deref(c.AllowPrivilegeEscalation, whole) {
		forbid(at.Child("allowPrivilegeEscalation"), "must be false")
	}
	if c.Capabilities != nil && len(c.Capabilities.Add) > 0 {
		forbid(at.Child("capabilities", "add"), "must be empty")
	}
}
