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
	for _, noLoops := range []bool{false, true, false} {
		for _, spec := range []*specs.Spec{of(), of("CAP_CHOWN"), of("CAP_CHOWN", "CAP_SYS_ADMIN"), of("CAP_SYS_ADMIN"), of("CAP_SYS_BOOT")} {
			got, err := remembered.standard(spec, noLoops)
			if err != nil {
				t.Fatal(err)
			}
			want := seccomp.DefaultProfile(spec)
			if noLoops {
				if want, err = withoutLoops(want); err != nil {
					t.Fatal(err)
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%v: got another profile", spec.Process.Capabilities.Bounding)
			}
			if again, err := remembered.standard(spec, noLoops); again != got || err != nil {
				t.Errorf("%v: made a second time", spec.Process.Capabilities.Bounding)
			}
		}
	}
	if made, err := (*Profiles)(nil).standard(of(), true); made == nil || err != nil {
		t.Errorf("without a memory: %v, %v", made, err)
	}
}
