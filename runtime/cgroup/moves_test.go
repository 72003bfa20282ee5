package cgroup

import "testing"

func TestGroupOfAProcess(t *testing.T) {
	const hybrid = "12:memory:/a\n5:cpu,cpuacct:/b\n1:name=systemd:/c:d\n0::/e\n"
	for name, test := range map[string]struct {
		hierarchy hierarchy
		groups    string
		want      string
	}{
		"memory":                      {hierarchy{options: []string{"rw", "memory"}}, hybrid, "/a"},
		"two controllers":             {hierarchy{options: []string{"rw", "cpu", "cpuacct"}}, hybrid, "/b"},
		"a name, and a group with :":  {hierarchy{options: []string{"rw", "xattr", "name=systemd"}}, hybrid, "/c:d"},
		"v2 beside v1":                {hierarchy{v2: true}, hybrid, "/e"},
		"v2":                          {hierarchy{v2: true}, "0::/system.slice/jobd.service\n", "/system.slice/jobd.service"},
		"a hierarchy that is unknown": {hierarchy{options: []string{"rw", "pids"}}, hybrid, "/"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.hierarchy.group(test.groups); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
