package oci

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSysctls(t *testing.T) {
	for rule, c := range map[string]struct {
		allowed []string
		asked   string
		change  func(*corev1.PodSpec)
		want    string
	}{
		"a safe one":              {nil, "net.ipv4.tcp_syncookies", nil, ""},
		"a safe one with slashes": {nil, "net/ipv4/tcp_syncookies", nil, ""},
		"a safe one of the host's": {
			nil, "net.ipv4.tcp_syncookies", func(s *corev1.PodSpec) { s.HostNetwork = true },
			`forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host Net enabled`,
		},
		"an unsafe one":                 {nil, "kernel.msgmax", nil, `forbidden sysctl: "kernel.msgmax" not allowlisted`},
		"an unsafe one that is allowed": {[]string{"kernel.msgmax"}, "kernel.msgmax", nil, ""},
		"one of a pattern":              {[]string{"kernel.msg*"}, "kernel.msgmax", nil, ""},
		"one beside the pattern":        {[]string{"kernel.msg*"}, "kernel.shmmax", nil, `forbidden sysctl: "kernel.shmmax" not allowlisted`},
		"an allowed one of the host's": {
			[]string{"kernel.msg*"}, "kernel.msgmax", func(s *corev1.PodSpec) { s.HostIPC = true },
			`forbidden sysctl: "kernel.msgmax" not allowed with host IPC enabled`,
		},
		"an allowed one of the host's user": {
			[]string{"user.*"}, "user.max_pid_namespaces", nil,
			`forbidden sysctl: "user.max_pid_namespaces" not allowed with host User enabled`,
		},
	} {
		t.Run(rule, func(t *testing.T) {
			allowed, err := ParseSysctls(c.allowed)
			if err != nil {
				t.Fatal(err)
			}
			pod := &corev1.Pod{}
			pod.Spec.SecurityContext = withSysctl(c.asked)
			if c.change != nil {
				c.change(&pod.Spec)
			}
			got := ""
			if err := allowed.Check(pod); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	for _, bad := range []string{"", "kernel.panic", "vm.*", "net.*.x", "Net.core", "*"} {
		if _, err := ParseSysctls([]string{bad}); err == nil {
			t.Errorf("%q is allowed", bad)
		}
	}
}

func FuzzParseSysctls(f *testing.F) {
	f.Add("net.core.*", "net.core.somaxconn")
	f.Fuzz(func(t *testing.T, pattern, asked string) {
		allowed, err := ParseSysctls([]string{pattern})
		if err != nil {
			return
		}
		pod := &corev1.Pod{Spec: corev1.PodSpec{HostNetwork: true, HostIPC: true, SecurityContext: withSysctl(asked)}}
		if allowed.Check(pod) == nil && asked != "" && asked != "kernel.domainname" && asked != "kernel/domainname" {
			t.Errorf("%q allows %q of the host", pattern, asked)
		}
	})
}
