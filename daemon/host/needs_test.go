package host

import (
	"strings"
	"testing"
)

func TestLackNamesWhatIsMissingAndWhatHelps(t *testing.T) {
	for _, test := range []struct {
		name  string
		needs needs
		want  []string // of the error; none if there is none
	}{
		{"a machine with all of it", needs{admin: true, groups: true}, nil},
		{"a container with all of it", needs{admin: true, groups: true, place: InContainer}, nil},
		{"not root", needs{uid: 1000, groups: true}, []string{"uid 1000", "sudo jobd serve"}},
		{"no capability", needs{groups: true, systemd: true}, []string{"CAP_SYS_ADMIN", "sudo -i", "systemctl start jobd"}},
		{"no capability and no systemd", needs{groups: true}, []string{"CAP_SYS_ADMIN", "(sudo -i)\n"}},
		{"no capability in a container", needs{groups: true, place: InContainer}, []string{"CAP_SYS_ADMIN", "--privileged"}},
		{"no control groups", needs{admin: true}, []string{"no control groups", "mount -t cgroup2"}},
		{"no control groups on WSL", needs{admin: true, place: InWSL}, []string{"no control groups", "/etc/wsl.conf", "wsl --shutdown"}},
		{"read-only", needs{admin: true, groups: true, readOnly: true}, []string{"read-only", "remount,rw"}},
		{
			"read-only in a container", needs{admin: true, groups: true, readOnly: true, place: InContainer},
			[]string{"read-only", "--privileged --cgroupns=host"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := test.needs.lack()
			if (err == nil) != (test.want == nil) {
				t.Fatal(err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error()+"\n", want) {
					t.Errorf("%v: no %q", err, want)
				}
			}
		})
	}
}
