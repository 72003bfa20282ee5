package e2e

import (
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// securityFieldCases are about users and groups, and what a container may do.
var securityFieldCases = []fieldCase{
	{fields: "PodSpec.securityContext PodSecurityContext.runAsUser PodSecurityContext.runAsGroup PodSecurityContext.fsGroup " +
		"PodSecurityContext.fsGroupChangePolicy PodSecurityContext.supplementalGroups",
		test: "TestGroupsAndReadOnlyMounts"},
	{fields: "PodSecurityContext.runAsNonRoot", spec: `securityContext: {runAsNonRoot: true}`,
		check: func(t *testing.T, p *fieldPod) {
			p.isNotConfigured("container has runAsNonRoot and image will run as root")
		}},
	{fields: "PodSecurityContext.supplementalGroupsPolicy", pod: "strict",
		spec: `{securityContext: {runAsUser: 1000, runAsGroup: 1000, supplementalGroups: [3000], supplementalGroupsPolicy: Strict}, containers: [{name: c, image: "other:1"}]}`,
		run:  `id -G`, want: "1000 3000",
		check: func(t *testing.T, p *fieldPod) {
			u := p.status(p.until("runs", runs), "c").User
			if u == nil || u.Linux == nil || u.Linux.UID != 1000 || u.Linux.GID != 1000 || !slices.Equal(u.Linux.SupplementalGroups, []int64{1000, 3000}) {
				t.Errorf("its status says %+v", u)
			}
		}},
	{fields: "PodSecurityContext.sysctls Sysctl.value", pod: "sysctls",
		spec: `securityContext: {sysctls: [{name: net.ipv4.ip_unprivileged_port_start, value: "80"}, {name: net/ipv4/tcp_keepalive_time, value: "77"}]}`,
		run:  `cat /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/net/ipv4/tcp_keepalive_time`, want: "80\n77"},
	{fields: "Sysctl.name", test: "TestTheNodeTakesOrRejectsPods"},
	{fields: "PodSecurityContext.seccompProfile SeccompProfile.type SeccompProfile.localhostProfile", test: "TestSeccompProfilesOfOnesOwn"},
	{fields: "SecurityContext.seccompProfile", test: "TestSeccompProfile"},
	{
		fields: "PodSecurityContext.appArmorProfile SecurityContext.appArmorProfile AppArmorProfile.type AppArmorProfile.localhostProfile",
		test:   "TestAppArmorProfile",
	},
	{fields: "PodSecurityContext.seLinuxOptions SELinuxOptions.level PodSecurityContext.seLinuxChangePolicy", pod: "labelled",
		spec: `securityContext: {seLinuxOptions: {level: "s0:c1,c2"}, seLinuxChangePolicy: MountOption}`, check: func(t *testing.T, p *fieldPod) {
			p.labelled("c", ":s0:c1,c2")
		}},
	{fields: "SecurityContext.seLinuxOptions SELinuxOptions.user SELinuxOptions.role SELinuxOptions.type", pod: "labelled",
		spec:  of("own", `securityContext: {seLinuxOptions: {user: system_u, role: system_r, type: container_t, level: "s0:c3"}}`),
		check: func(t *testing.T, p *fieldPod) { p.labelled("own", "system_u:system_r:container_t:s0:c3") }},
	{fields: "PodSecurityContext.windowsOptions", pod: "windows", spec: `securityContext: {windowsOptions: {runAsUserName: a}}`},
	{fields: "SecurityContext.windowsOptions", pod: "windows", spec: ofC(`securityContext: {windowsOptions: {runAsUserName: a}}`)},

	{fields: "Container.securityContext SecurityContext.runAsUser SecurityContext.runAsGroup", pod: "contexts",
		spec: of("user", `securityContext: {runAsUser: 1234, runAsGroup: 4321}`), in: "user",
		run: `id -u; id -g; stat -c '%u %g' /proc/1; echo $HOME`, want: "1234\n4321\n1234 4321\n/"},
	{fields: "SecurityContext.runAsNonRoot", spec: ofC(`securityContext: {runAsNonRoot: true, runAsUser: 0}`),
		check: func(t *testing.T, p *fieldPod) { p.isNotConfigured("container's runAsUser breaks non-root policy") }},
	{fields: "SecurityContext.capabilities Capabilities.add Capabilities.drop", pod: "contexts",
		spec: of(
			"able", `securityContext: {capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}}`,
		), in: "able", run: `grep -E 'Cap(Prm|Eff|Bnd)' /proc/1/status | cut -f 2`,
		want: "0000000000000400\n0000000000000400\n0000000000000400"},
	{fields: "SecurityContext.privileged", pod: "contexts",
		spec: of(
			"mighty", `securityContext: {privileged: true}`,
		), in: "mighty", run: `grep Seccomp: /proc/1/status; mount -t tmpfs x /tmp && echo mounted; [ -w /proc/sys/kernel ] && echo writes`,
		want: "Seccomp:\t0\nmounted\nwrites"},
	{fields: "SecurityContext.readOnlyRootFilesystem", pod: "contexts",
		spec: of("read-only", `securityContext: {readOnlyRootFilesystem: true}`), in: "read-only", run: `touch /x`, want: "touch: /x: Read-only file system"},
	{fields: "SecurityContext.allowPrivilegeEscalation", pod: "contexts",
		spec: of(
			"content", `securityContext: {allowPrivilegeEscalation: false}`,
		), in: "content", run: `grep NoNewPrivs /proc/1/status`, want: "NoNewPrivs:\t1"},
	{fields: "SecurityContext.procMount", pod: "unmasked", spec: `{hostUsers: false, containers: [{name: c, securityContext: {procMount: Unmasked}}, {name: masked}]}`, needs: users,
		run: `grep -c ' /proc/' /proc/mounts`, want: "0",
		check: func(t *testing.T, p *fieldPod) {
			if p.sh("masked", "grep -c ' /proc/' /proc/mounts") == "0\n" {
				t.Error("nothing is masked for the other container either")
			}
		}},
	{fields: "PodSpec.hostUsers", test: "TestUserNamespaces"},
}

// isNotConfigured waits until c says why it is not started.
func (p *fieldPod) isNotConfigured(why string) {
	p.t.Helper()
	p.until("says "+why, func(pod *corev1.Pod) bool {
		waits := p.status(pod, "c").State.Waiting
		return waits != nil && waits.Reason == "CreateContainerConfigError" && strings.Contains(waits.Message, why)
	})
}

// labelled checks the SELinux label of the first process of a container, where the host has SELinux. Elsewhere the
// container runs without one; runtime/oci tests what the OCI runtime is given.
func (p *fieldPod) labelled(container, end string) {
	p.t.Helper()
	p.until("runs", runs)
	if _, err := os.Stat("/sys/fs/selinux/enforce"); err != nil {
		p.sh(container, "true")
		p.t.Skip("it runs, and its label cannot be seen: needs SELinux")
	}
	if got := strings.TrimRight(p.sh(container, "cat /proc/1/attr/current"), "\x00\n"); !strings.HasSuffix(got, end) {
		p.t.Errorf("its label is %q, want one that ends in %q", got, end)
	}
}
