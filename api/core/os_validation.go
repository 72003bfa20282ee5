package core

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/podspec"
)

// validateOS checks which fields a Pod may set that names its operating system (PodSpec.OS). A Pod for Windows is
// accepted, as it is in a cluster; this node rejects it.
func validateOS(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	if spec.OS == nil {
		return nil
	}
	switch name := spec.OS.Name; name {
	case corev1.Linux:
		return forbidWindows(spec, path)
	case corev1.Windows:
		return forbidLinux(spec, path)
	case "":
		return field.ErrorList{field.Required(path.Child("os", "name"), "")}
	default:
		return field.ErrorList{field.NotSupported(path.Child("os"), name, []corev1.OSName{corev1.Linux, corev1.Windows})}
	}
}

func forbidWindows(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	forbid := func(path *field.Path, options *corev1.WindowsSecurityContextOptions) {
		if options != nil {
			errs = append(errs, field.Forbidden(path.Child("securityContext", "windowsOptions"),
				"windows options cannot be set for a linux pod"))
		}
	}
	if s := spec.SecurityContext; s != nil {
		forbid(path, s.WindowsOptions)
	}
	podspec.Each(spec, path, func(c *corev1.Container, path *field.Path) {
		if s := c.SecurityContext; s != nil {
			forbid(path, s.WindowsOptions)
		}
	})
	return errs
}

func forbidLinux(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	forbid := func(path *field.Path, fields ...linuxField) {
		for _, f := range fields {
			if f.set {
				errs = append(errs, field.Forbidden(path.Child(f.name), "cannot be set for a windows pod"))
			}
		}
	}
	if s := spec.SecurityContext; s != nil {
		forbid(path.Child("securityContext"),
			linuxField{"appArmorProfile", s.AppArmorProfile != nil}, linuxField{"seLinuxOptions", s.SELinuxOptions != nil},
			linuxField{"seccompProfile", s.SeccompProfile != nil}, linuxField{"fsGroup", s.FSGroup != nil},
			linuxField{"fsGroupChangePolicy", s.FSGroupChangePolicy != nil}, linuxField{"sysctls", len(s.Sysctls) > 0},
			linuxField{"runAsUser", s.RunAsUser != nil}, linuxField{"runAsGroup", s.RunAsGroup != nil},
			linuxField{"supplementalGroups", s.SupplementalGroups != nil},
			linuxField{"supplementalGroupsPolicy", s.SupplementalGroupsPolicy != nil},
			linuxField{"seLinuxChangePolicy", s.SELinuxChangePolicy != nil})
	}
	forbid(path, linuxField{"hostUsers", spec.HostUsers != nil}, linuxField{"hostPID", spec.HostPID},
		linuxField{"hostIPC", spec.HostIPC}, linuxField{"shareProcessNamespace", spec.ShareProcessNamespace != nil})
	podspec.Each(spec, path, func(c *corev1.Container, path *field.Path) {
		s := c.SecurityContext
		if s == nil {
			return
		}
		forbid(path.Child("securityContext"),
			linuxField{"appArmorProfile", s.AppArmorProfile != nil}, linuxField{"seLinuxOptions", s.SELinuxOptions != nil},
			linuxField{"seccompProfile", s.SeccompProfile != nil}, linuxField{"capabilities", s.Capabilities != nil},
			linuxField{"readOnlyRootFilesystem", s.ReadOnlyRootFilesystem != nil},
			linuxField{"privileged", s.Privileged != nil},
			linuxField{"allowPrivilegeEscalation", s.AllowPrivilegeEscalation != nil},
			linuxField{"procMount", s.ProcMount != nil}, linuxField{"runAsUser", s.RunAsUser != nil},
			linuxField{"runAsGroup", s.RunAsGroup != nil})
	})
	return errs
}

// linuxField is a field that a Pod for Windows cannot set.
type linuxField struct {
	name string
	set  bool
}

// The rules of a user's name in Windows (WindowsSecurityContextOptions.RunAsUserName).
const (
	maxWindowsDomain = 256
	maxWindowsUser   = 104
	// maxCredentialSpec is the size of GMSACredentialSpec in KiB.
	maxCredentialSpec = 64
)

var (
	controlCharacters = regexp.MustCompile(`[[:cntrl:]]+`)
	netBIOSDomain     = regexp.MustCompile(`^[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}$`)
	dotsAndSpaces     = regexp.MustCompile(`^[\. ]+$`)
	notInUserNames    = regexp.MustCompile(`["/\\:;|=,\+\*\?<>@\[\]]`)
)

func validateWindowsOptions(w *corev1.WindowsSecurityContextOptions, path *field.Path) field.ErrorList {
	if w == nil {
		return nil
	}
	var errs field.ErrorList
	if name := w.GMSACredentialSpecName; name != nil {
		errs = append(errs, invalid(path.Child("gmsaCredentialSpecName"), *name, utilvalidation.IsDNS1123Subdomain(*name))...)
	}
	if content := w.GMSACredentialSpec; content != nil {
		switch path := path.Child("gmsaCredentialSpec"); {
		case *content == "":
			errs = append(errs, field.Invalid(path, *content, "gmsaCredentialSpec cannot be an empty string"))
		case len(*content) > maxCredentialSpec<<10:
			errs = append(errs, field.Invalid(path, *content,
				fmt.Sprintf("gmsaCredentialSpec size must be under %d KiB", maxCredentialSpec)))
		}
	}
	if name := w.RunAsUserName; name != nil {
		errs = append(errs, invalid(path.Child("runAsUserName"), *name, checkWindowsUser(*name))...)
	}
	return errs
}

// checkWindowsUser returns what is wrong with DOMAIN\USER or USER.
func checkWindowsUser(name string) (wrong []string) {
	domain, user, hasDomain := strings.Cut(name, `\`)
	switch {
	case name == "":
		return []string{"runAsUserName cannot be an empty string"}
	case controlCharacters.MatchString(name):
		return []string{"runAsUserName cannot contain control characters"}
	case strings.Contains(user, `\`):
		return []string{"runAsUserName cannot contain more than one backslash"}
	case !hasDomain:
		domain, user = "", name
	}
	if len(domain) >= maxWindowsDomain {
		wrong = append(wrong, fmt.Sprintf("runAsUserName's Domain length must be under %d characters", maxWindowsDomain))
	}
	if hasDomain && !netBIOSDomain.MatchString(domain) && len(utilvalidation.IsDNS1123Subdomain(strings.ToLower(domain))) > 0 {
		wrong = append(wrong, "runAsUserName's Domain doesn't match the NetBios nor the DNS format")
	}
	switch {
	case user == "":
		wrong = append(wrong, "runAsUserName's User cannot be empty")
	case len(user) > maxWindowsUser:
		wrong = append(wrong,
			fmt.Sprintf("runAsUserName's User length must not be longer than %d characters", maxWindowsUser))
	}
	if dotsAndSpaces.MatchString(user) {
		wrong = append(wrong, "runAsUserName's User cannot contain only periods or spaces")
	}
	if notInUserNames.MatchString(user) {
		wrong = append(wrong, `runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]`)
	}
	return wrong
}

// validateHostProcess checks Pods whose containers run on the Windows host itself: all of them or none, and in its
// network (WindowsSecurityContextOptions.HostProcess).
func validateHostProcess(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	hostProcess := func(w *corev1.WindowsSecurityContextOptions) *bool {
		if w == nil {
			return nil
		}
		return w.HostProcess
	}
	var whole *bool
	if s := spec.SecurityContext; s != nil {
		whole = hostProcess(s.WindowsOptions)
	}
	var errs field.ErrorList
	all, onHost := 0, 0
	podspec.Each(spec, path, func(c *corev1.Container, path *field.Path) {
		all++
		var own *bool
		if s := c.SecurityContext; s != nil {
			own = hostProcess(s.WindowsOptions)
		}
		if whole != nil && own != nil && *whole != *own {
			errs = append(errs, field.Invalid(path.Child("securityContext", "windowsOptions", "hostProcess"), *own,
				fmt.Sprintf("pod hostProcess value must be identical if both are specified, was %v", *whole)))
		}
		if ptr.Deref(own, ptr.Deref(whole, false)) {
			onHost++
		}
	})
	if onHost == 0 {
		return errs
	}
	if onHost != all {
		errs = append(errs, field.Invalid(path, "",
			"If pod contains any hostProcess containers then all containers must be HostProcess containers"))
	}
	if !spec.HostNetwork {
		errs = append(errs, field.Invalid(path.Child("hostNetwork"), spec.HostNetwork,
			"hostNetwork must be true if pod contains any hostProcess containers"))
	}
	return errs
}
