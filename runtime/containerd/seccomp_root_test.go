package containerd

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime/bpftree"
	"github.com/jobd/jobd/runtime/oci"
)

// What is loaded decides as what the OCI runtime compiles, for every system call, architecture and kind of argument.
func TestFiltersAreThoseOfTheOCIRuntime(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		if !takesFilters(r.oci.Version) {
			t.Skip("it takes no filters: " + r.oci.Version)
		}
		for name, added := range map[string][]corev1.Capability{
			"no capabilities": nil,
			"many":            {"SYS_ADMIN", "SYS_PTRACE", "SYS_CHROOT", "BPF", "PERFMON"},
		} {
			c := &corev1.Container{Name: "c", Image: "i", Command: []string{"/c"}, SecurityContext: &corev1.SecurityContext{
				Capabilities: &corev1.Capabilities{Add: added, Drop: []corev1.Capability{"ALL"}},
			}}
			spec, err := oci.Spec(oci.Input{Pod: &corev1.Pod{}, Container: c, SeccompDefault: true, Host: oci.Host{Capabilities: []string{
				"CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_SYS_CHROOT", "CAP_BPF", "CAP_PERFMON",
			}}})
			if err != nil {
				t.Fatal(err)
			}
			profile := spec.Linux.Seccomp
			compiled, err := r.filters.compile(t.Context(), r.oci, profile)
			if err != nil {
				t.Fatal(err)
			}
			tree, err := bpftree.Rewrite(compiled)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %d bytes instead of %d", name, len(tree), len(compiled))
			if err := bpftree.Equal(compiled, tree); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
