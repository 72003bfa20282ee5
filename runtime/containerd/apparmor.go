package containerd

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/v2/contrib/apparmor"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/oci"
)

// appArmorFS is where a kernel that confines by AppArmor shows its profiles.
const appArmorFS = "/sys/kernel/security/apparmor"

// AppArmor is this host's support for AppArmor. It is nil where AppArmor cannot be used.
type AppArmor struct {
	// profile is the name of the default profile, which is containerd's. It is empty if the profile cannot be loaded.
	profile string
}

// OpenAppArmor looks for AppArmor and loads the default profile. Where that is impossible, containers that ask for no
// profile run without one, as containerd's do, and a warning is logged.
func OpenAppArmor(root string, logger *slog.Logger) *AppArmor {
	enabled, err := os.ReadFile("/sys/module/apparmor/parameters/enabled")
	if err != nil || !strings.HasPrefix(string(enabled), "Y") {
		return nil
	}
	if _, err := os.Stat(appArmorFS); err != nil {
		logger.Warn("AppArmor is not used, since no securityfs is mounted", "path", appArmorFS, "error", err)
		return nil
	}
	a := &AppArmor{profile: appArmorDefault(root)}
	if err := apparmor.LoadDefaultProfile(a.profile); err != nil {
		logger.Warn("cannot load the default AppArmor profile (is apparmor_parser installed?): "+
			"containers that name no profile run without one", "profile", a.profile, "error", err)
		a.profile = ""
	}
	return a
}

// appArmorDefault returns the name of a root's default profile. Each root has its own, so that two daemons do not
// interfere with each other.
func appArmorDefault(root string) string {
	return filepath.Base(runtime.CgroupParent(root)) + "-default"
}

// Default returns a function that loads the default profile, in case somebody has unloaded it, and returns its name.
// The function is nil where there is no such profile.
func (a *AppArmor) Default() func() (string, error) {
	if a == nil || a.profile == "" {
		return nil
	}
	return func() (string, error) {
		if err := apparmor.LoadDefaultProfile(a.profile); err != nil {
			return "", fmt.Errorf("load the default AppArmor profile: %w", err)
		}
		return a.profile, nil
	}
}

// Admit returns an error, in a kubelet's wording, if a pod cannot be confined here as it asks.
func (a *AppArmor) Admit(pod *corev1.Pod) error {
	for c := range podspec.Workload(&pod.Spec) {
		asked := oci.AppArmorProfile(pod, c)
		if asked == nil || asked.Type == corev1.AppArmorProfileTypeUnconfined {
			continue
		}
		if a == nil {
			return errors.New("Cannot enforce AppArmor: AppArmor is not enabled on the host") // a kubelet's wording
		}
		if asked.LocalhostProfile == nil {
			continue
		}
		loaded, err := appArmorLoaded(*asked.LocalhostProfile)
		if err != nil {
			return fmt.Errorf("Cannot enforce AppArmor: could not read loaded profiles: %w", err) // a kubelet's wording
		}
		if !loaded {
			// a kubelet's wording
			return fmt.Errorf("Cannot enforce AppArmor: profile %q is not loaded", *asked.LocalhostProfile)
		}
	}
	return nil
}

// appArmorLoaded reports whether the kernel knows a profile. The kernel lists them as "NAME (MODE)", one per line.
func appArmorLoaded(name string) (bool, error) {
	profiles, err := os.ReadFile(filepath.Join(appArmorFS, "profiles"))
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(profiles)) {
		if mode := strings.LastIndex(line, " ("); mode >= 0 && line[:mode] == name {
			return true, nil
		}
	}
	return false, nil
}

// removeAppArmorDefault unloads the default profile of a root.
func removeAppArmorDefault(root string) error {
	loaded, err := appArmorLoaded(appArmorDefault(root))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !loaded {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list AppArmor profiles: %w", err)
	}
	if err := os.WriteFile(filepath.Join(appArmorFS, ".remove"), []byte(appArmorDefault(root)), 0); err != nil {
		return fmt.Errorf("unload the default AppArmor profile: %w", err)
	}
	return nil
}
