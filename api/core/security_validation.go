package core

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/node/util/sysctl"
	"k8s.io/utils/ptr"
)

// validateSecurityContext checks the security context of a container; hostUsers is true if its pod is in the host's
// user namespace.
func validateSecurityContext(s *corev1.SecurityContext, path *field.Path, hostUsers bool) field.ErrorList {
	if s == nil {
		return nil
	}
	errs := validateUser(s.RunAsUser, s.RunAsGroup, path)
	errs = append(errs, validateWindowsOptions(s.WindowsOptions, path.Child("windowsOptions"))...)
	if s.ProcMount != nil {
		errs = append(errs, oneOf(path.Child("procMount"), *s.ProcMount,
			[]corev1.ProcMountType{corev1.DefaultProcMount, corev1.UnmaskedProcMount})...)
		if hostUsers && *s.ProcMount == corev1.UnmaskedProcMount {
			errs = append(errs, field.Invalid(path.Child("procMount"), *s.ProcMount, "`hostUsers` must be false to use `Unmasked`"))
		}
	}
	errs = append(errs, validateSeccomp(s.SeccompProfile, path.Child("seccompProfile"))...)
	errs = append(errs, validateAppArmor(s.AppArmorProfile, path.Child("appArmorProfile"))...)
	if !ptr.Deref(s.AllowPrivilegeEscalation, true) {
		if ptr.Deref(s.Privileged, false) {
			errs = append(errs, field.Invalid(path, s, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
		}
		if s.Capabilities != nil && slices.ContainsFunc(
			s.Capabilities.Add, func(c corev1.Capability) bool { return c == "CAP_SYS_ADMIN" || c == "SYS_ADMIN" },
		) {
			errs = append(errs, field.Invalid(path, s, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"))
		}
	}
	return errs
}

func validatePodSecurityContext(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	s := spec.SecurityContext
	if s == nil {
		return nil
	}
	errs := validateUser(s.RunAsUser, s.RunAsGroup, path)
	if s.FSGroup != nil {
		errs = append(errs, invalid(path.Child("fsGroup"), *s.FSGroup, utilvalidation.IsValidGroupID(*s.FSGroup))...)
	}
	for i, gid := range s.SupplementalGroups {
		errs = append(errs,
			invalid(path.Child("supplementalGroups").Index(i), gid, utilvalidation.IsValidGroupID(gid))...)
	}
	if p := s.SupplementalGroupsPolicy; p != nil {
		errs = append(errs, oneOf(path.Child("supplementalGroupsPolicy"), *p,
			[]corev1.SupplementalGroupsPolicy{corev1.SupplementalGroupsPolicyMerge,
				corev1.SupplementalGroupsPolicyStrict})...)
	}
	if p := s.FSGroupChangePolicy; p != nil {
		errs = append(errs, oneOf(path.Child("fsGroupChangePolicy"), *p,
			[]corev1.PodFSGroupChangePolicy{corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch})...)
	}
	if p := s.SELinuxChangePolicy; p != nil {
		errs = append(errs, oneOf(path.Child("seLinuxChangePolicy"), *p,
			[]corev1.PodSELinuxChangePolicy{corev1.SELinuxChangePolicyMountOption, corev1.SELinuxChangePolicyRecursive})...)
	}
	errs = append(errs, validateWindowsOptions(s.WindowsOptions, path.Child("windowsOptions"))...)
	errs = append(errs, validateSysctls(s.Sysctls, spec, path.Child("sysctls"))...)
	errs = append(errs, validateSeccomp(s.SeccompProfile, path.Child("seccompProfile"))...)
	return append(errs, validateAppArmor(s.AppArmorProfile, path.Child("appArmorProfile"))...)
}

// validateHostUsers keeps a pod with a user namespace of its own (KEP-127) out of the host's other namespaces. The names
// of the fields are a cluster's.
func validateHostUsers(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	if ptr.Deref(spec.HostUsers, true) {
		return nil
	}
	var errs field.ErrorList
	for _, shared := range []struct {
		name string
		is   bool
	}{{"hostNetwork", spec.HostNetwork}, {"HostPID", spec.HostPID}, {"HostIPC", spec.HostIPC}} {
		if shared.is {
			errs = append(errs, field.Forbidden(path.Child(shared.name), "when `hostUsers` is false"))
		}
	}
	return errs
}

func validateUser(uid, gid *int64, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if uid != nil {
		errs = append(errs, invalid(path.Child("runAsUser"), *uid, utilvalidation.IsValidUserID(*uid))...)
	}
	if gid != nil {
		errs = append(errs, invalid(path.Child("runAsGroup"), *gid, utilvalidation.IsValidGroupID(*gid))...)
	}
	return errs
}

func validateSeccomp(p *corev1.SeccompProfile, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	var errs field.ErrorList
	switch p.Type {
	case corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined:
	case "":
		errs = append(errs, field.Required(path.Child("type"), "type is required when seccompProfile is set"))
	default:
		errs = append(errs, field.NotSupported(path.Child("type"), p.Type, []corev1.SeccompProfileType{
			corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined,
		}))
	}
	path = path.Child("localhostProfile")
	switch named := p.LocalhostProfile; {
	case p.Type != corev1.SeccompProfileTypeLocalhost:
		if named != nil {
			errs = append(errs, field.Invalid(path, p, "can only be set when seccomp type is Localhost"))
		}
	case ptr.Deref(named, "") == "":
		errs = append(errs, field.Required(path, "must be set when seccomp type is Localhost"))
	default:
		errs = append(errs, validateInside(*named, path)...)
	}
	return errs
}

// maxAppArmorProfile is the longest name of a profile, in bytes.
const maxAppArmorProfile = 4095

func validateAppArmor(p *corev1.AppArmorProfile, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	named := path.Child("localhostProfile")
	switch p.Type {
	case corev1.AppArmorProfileTypeLocalhost:
		return validateAppArmorName(p.LocalhostProfile, named)
	case corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined:
		if p.LocalhostProfile != nil {
			return field.ErrorList{field.Invalid(named, *p.LocalhostProfile,
				"can only be set when AppArmor type is Localhost")}
		}
		return nil
	case "":
		return field.ErrorList{field.Required(path.Child("type"), "type is required when appArmorProfile is set")}
	}
	return field.ErrorList{field.NotSupported(path.Child("type"), p.Type, []corev1.AppArmorProfileType{
		corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined,
	})}
}

func validateAppArmorName(name *string, path *field.Path) field.ErrorList {
	if ptr.Deref(name, "") == "" {
		return field.ErrorList{field.Required(path, "must be set when AppArmor type is Localhost")}
	}
	var errs field.ErrorList
	if strings.TrimSpace(*name) != *name {
		errs = append(errs, field.Invalid(path, *name, "must not be padded with whitespace"))
	}
	if len(*name) > maxAppArmorProfile {
		errs = append(errs, field.TooLong(path, "", maxAppArmorProfile))
	}
	return errs
}

const maxSysctlName = 253

var sysctlName = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

func validateSysctls(sysctls []corev1.Sysctl, spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, s := range sysctls {
		path := path.Index(i).Child("name")
		switch {
		case s.Name == "":
			errs = append(errs, field.Required(path, ""))
		case len(s.Name) > maxSysctlName || !sysctlName.MatchString(s.Name):
			errs = append(errs,
				field.Invalid(path, s.Name, "must have at most 253 characters and match regex "+sysctlName.String()))
		case seen[s.Name]:
			errs = append(errs, field.Duplicate(path, s.Name))
		}
		switch ns, _, _ := sysctl.GetNamespace(s.Name); {
		case spec.HostNetwork && ns == sysctl.NetNamespace:
			errs = append(errs, field.Invalid(path, s.Name, "may not be specified when 'hostNetwork' is true"))
		case spec.HostIPC && ns == sysctl.IPCNamespace:
			errs = append(errs, field.Invalid(path, s.Name, "may not be specified when 'hostIPC' is true"))
		}
		seen[s.Name] = true
	}
	return errs
}
