package oci

import (
	"reflect"
	"testing"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// A profile that is remembered is the one that would be made anew, whatever others are remembered too.
func TestProfiles(t *testing.T) {
	of := func(capabilities ...string) *specs.Spec {
		return &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: capabilities}}}
	}
	remembered := NewProfiles()
	for range 2 {
		for _, spec := range []*specs.Spec{of(), of("CAP_CHOWN"), of("CAP_CHOWN", "CAP_SYS_ADMIN"), of("CAP_SYS_ADMIN"), of("CAP_SYS_BOOT")} {
			got := remembered.standard(spec)
			if want := seccomp.DefaultProfile(spec); !reflect.DeepEqual(got, want) {
				t.Errorf("%v: got another profile", spec.Process.Capabilities.Bounding)
			}
			if remembered.standard(spec) != got {
				t.Errorf("%v: made a second time", spec.Process.Capabilities.Bounding)
			}
		}
	}
	if (*Profiles)(nil).standard(of()) == nil {
		t.Error("without a memory there is no profile")
	}
}
