package containerd

import (
	"testing"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/jobd/jobd/runtime/bpftree"
)

// What is loaded decides as what the OCI runtime compiles, for every system call, architecture and kind of argument.
func TestFiltersAreThoseOfTheOCIRuntime(t *testing.T) {
	ociRuntimes(t, func(t *testing.T, r *rig) {
		if !takesFilters(r.oci.Version) {
			t.Skip("it takes no filters: " + r.oci.Version)
		}
		for name, capabilities := range map[string][]string{
			"no capabilities": nil,
			"many":            {"CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_SYS_CHROOT", "CAP_BPF", "CAP_PERFMON"},
		} {
			profile := seccomp.DefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: capabilities}}})
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
