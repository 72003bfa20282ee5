package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// probed is a spec of a container with a readiness probe that is asked each second.
func probed(container, probe string) string {
	return `{restartPolicy: Always, ` + of(container, `readinessProbe: {periodSeconds: 1, timeoutSeconds: 60, `+probe+`}`) + `}`
}

// hooked is a spec of a container that runs a shell script until it is told to end, with /v for HOSTDIR.
func hooked(container, traps, lifecycle string) string {
	return `{terminationGracePeriodSeconds: 60, os: {name: linux}, volumes: [{name: v, hostPath: {path: HOSTDIR}}], ` +
		of(container, `volumeMounts: [{name: v, mountPath: /v}], lifecycle: {`+lifecycle+`},
			command: [sh, -c, "trap 'exit 0' TERM; `+traps+`; touch /v/`+container+`; while :; do sleep 0.1; done"]`) + `}`
}

// probeFieldCases are about probes and hooks.
var probeFieldCases = []fieldCase{
	{fields: "Container.readinessProbe Probe.exec ExecAction.command", pod: "probes", spec: probed("executes", `exec: {command: [touch, /tmp/probed]}`),
		check: func(t *testing.T, p *fieldPod) {
			p.ready("executes")
			p.sh("executes", "ls /tmp/probed")
		}},
	{fields: "Probe.httpGet HTTPGetAction.path HTTPGetAction.port HTTPGetAction.host HTTPGetAction.scheme " +
		"HTTPGetAction.httpHeaders HTTPHeader.name HTTPHeader.value", pod: "probes",
		spec: probed(
			"asks",
			`httpGet: {host: 127.0.0.1, port: HTTPSPORT, path: /probes/secret, scheme: HTTPS, httpHeaders: [{name: X-Probe, value: mine}, {name: Host, value: me.example}]}`,
		),
		check: func(t *testing.T, p *fieldPod) {
			p.ready("asks")
			if r := p.request("/probes/secret"); r.TLS == nil || r.Header.Get("X-Probe") != "mine" || r.Host != "me.example" {
				t.Errorf("it was asked %+v", r)
			}
		}},
	{fields: "HTTPGetAction.protocol", pod: "host-probes", spec: probed("asks-in-two", `httpGet: {port: HTTPPORT, path: /probes/two, protocol: HTTP2}`),
		check: func(t *testing.T, p *fieldPod) {
			p.ready("asks-in-two")
			if r := p.request("/probes/two"); r.ProtoMajor != 2 {
				t.Errorf("it was asked in %s", r.Proto)
			}
		}},
	{fields: "Probe.tcpSocket TCPSocketAction.port TCPSocketAction.host", pod: "probes", spec: probed(
		"connects", `tcpSocket: {host: 127.0.0.1, port: TCPPORT}`,
	),
		check: func(t *testing.T, p *fieldPod) {
			p.ready("connects")
			p.connected(p.world.tcp)
		}},
	{fields: "Probe.grpc GRPCAction.port GRPCAction.service", pod: "host-probes", spec: `{hostNetwork: true, ` + strings.TrimPrefix(
		probed("asks", `grpc: {port: GRPCPORT, service: healthy}`), "{",
	),
		check: func(t *testing.T, p *fieldPod) { p.ready("asks") }},
	{fields: "GRPCAction.mode", pod: "host-probes", spec: probed("asks-secretly", `grpc: {port: GRPCTLSPORT, service: healthy, mode: TLS}`),
		check: func(t *testing.T, p *fieldPod) { p.ready("asks-secretly") }},

	{fields: "Container.startupProbe", pod: "probes", spec: of(
		"starts",
		`startupProbe: {exec: {command: [ls, /tmp/started]}, periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 10000}`,
	),
		check: func(t *testing.T, p *fieldPod) {
			p.says("Unhealthy", "Startup probe failed: ")
			if s := p.status(p.until("is there", runs), "starts"); *s.Started || s.Ready {
				t.Errorf("it has not started: %+v", s)
			}
			p.sh("starts", "touch /tmp/started")
			p.ready("starts")
		}},
	{fields: "Container.livenessProbe Probe.failureThreshold", pod: "probes",
		spec: `{volumes: [{name: v, emptyDir: {}}], containers: [{name: dies, volumeMounts: [{name: v, mountPath: /v}],
			command: [sh, -c, "[ -e /v/begun ] && [ ! -e /v/seen ] && cp /v/probes /v/seen; touch /v/begun; exec sleep 1000000"],
			livenessProbe: {exec: {command: [sh, -c, "echo x >>/v/probes; false"]}, periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 3}}]}`,
		check: func(t *testing.T, p *fieldPod) {
			p.restarted("dies")
			p.says("Killing", "Container dies failed liveness probe, will be restarted")
			p.eventually("it was probed three times before", func() error {
				got, err := p.try("jobctl", nil, "exec", p.name, "-c", "dies", "--", "wc", "-l", "/v/seen")
				if n, _ := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(got, "/v/seen\n"))); n < 3 && err == nil {
					t.Errorf("it was probed %s times", got)
				}
				return err
			})
		}},
	{fields: "Probe.terminationGracePeriodSeconds",
		spec: `{restartPolicy: Always, terminationGracePeriodSeconds: 3600, containers: [{name: c, command: [sh, -c, "trap '' TERM; while :; do sleep 1; done"],
			livenessProbe: {exec: {command: ["false"]}, periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 1, terminationGracePeriodSeconds: 1}}]}`,
		check: func(t *testing.T, p *fieldPod) {
			if last := p.restarted("c"); last.ExitCode != 137 {
				t.Errorf("it has ended as %+v", last)
			}
		}},
	{fields: "Probe.timeoutSeconds", pod: "probe-times", spec: of("hangs", `readinessProbe: {exec: {command: [sleep, "1000000"]}, timeoutSeconds: 1}`),
		check: func(t *testing.T, p *fieldPod) { p.says("Unhealthy", "Readiness probe failed: command timed out") }},
	{fields: "Probe.successThreshold", pod: "probe-times", spec: of(
		"thorough",
		`readinessProbe: {exec: {command: [sh, -c, "echo x >>/tmp/probes"]}, periodSeconds: 1, timeoutSeconds: 60, successThreshold: 3}`,
	),
		check: func(t *testing.T, p *fieldPod) {
			p.ready("thorough")
			if n, _ := strconv.Atoi(strings.TrimSpace(p.sh("thorough", "wc -l </tmp/probes"))); n < 3 {
				t.Errorf("it is ready after %d successes", n)
			}
		}},
	{fields: "Probe.initialDelaySeconds", pod: "probe-times", spec: of(
		"late", `readinessProbe: {exec: {command: [touch, /tmp/probed]}, initialDelaySeconds: 3600, periodSeconds: 1}`,
	),
		check: func(t *testing.T, p *fieldPod) {
			p.ready("thorough") // has been probed several times
			if got := p.sh("late", "ls /tmp"); got != "" {
				t.Errorf("it was probed before its time")
			}
		}},
	{fields: "Probe.periodSeconds", pod: "probe-times", spec: of(
		"rare",
		`readinessProbe: {exec: {command: [sh, -c, "echo x >>/tmp/probes; false"]}, periodSeconds: 3600, timeoutSeconds: 60}`,
	),
		check: func(t *testing.T, p *fieldPod) {
			p.ready("thorough")
			p.says("Unhealthy", "Readiness probe failed: command ")
			if got := p.sh("rare", "wc -l </tmp/probes"); got != "1\n" {
				t.Errorf("it was probed %s times in a period", got)
			}
		}},

	{fields: "Container.lifecycle Lifecycle.postStart LifecycleHandler.exec", pod: "started-hooks", spec: hooked(
		"c", "true", `postStart: {exec: {command: [sh, -c, echo post >/v/post]}}`,
	),
		check: func(t *testing.T, p *fieldPod) {
			if got := p.written("post"); got != "post\n" {
				t.Errorf("the hook has written %q", got)
			}
		}},
	{fields: "LifecycleHandler.httpGet", pod: "started-hooks", spec: hooked(
		"asks", "true", `postStart: {httpGet: {host: 127.0.0.1, port: HTTPPORT, path: /hooks/post}}`,
	),
		check: func(t *testing.T, p *fieldPod) { p.request("/hooks/post") }},
	{fields: "LifecycleHandler.tcpSocket", pod: "started-hooks", spec: hooked("connects", "true", `postStart: {tcpSocket: {host: 127.0.0.1, port: HOOKPORT}}`),
		check: func(t *testing.T, p *fieldPod) { p.connected(p.world.hook) }},
	{fields: "Lifecycle.preStop", pod: "last-hooks", spec: hooked(
		"c", "trap 'cat /v/pre >/v/told; exit 0' TERM", `preStop: {exec: {command: [sh, -c, echo pre >/v/pre]}}`,
	),
		check: func(t *testing.T, p *fieldPod) {
			p.endsWithHooks()
			if got := p.written("told"); got != "pre\n" {
				t.Errorf("when it was told to end, the hook had written %q", got)
			}
		}},
	{fields: "Lifecycle.stopSignal", pod: "last-hooks", spec: hooked("signalled", "trap 'echo usr1 >/v/usr1; exit 0' USR1", `stopSignal: SIGUSR1`),
		check: func(t *testing.T, p *fieldPod) {
			p.endsWithHooks()
			p.written("usr1")
		}},
	{fields: "LifecycleHandler.sleep SleepAction.seconds", pod: "last-hooks", spec: hooked(
		"sleeps", "trap 'cat /proc/uptime >/v/slept; exit 0' TERM", `preStop: {sleep: {seconds: 2}}`,
	),
		check: func(t *testing.T, p *fieldPod) {
			p.endsWithHooks()
			if told, before := uptime(t, filepath.Join(p.dir, "slept")), uptime(t, filepath.Join(p.dir, "before")); told < before+2 {
				t.Errorf("it was told to end at %v, and its pod was deleted at %v", told, before)
			}
		}},
}

// ready waits until a container is ready.
func (p *fieldPod) ready(container string) {
	p.t.Helper()
	p.until(container+" is ready", func(pod *corev1.Pod) bool { return p.status(pod, container).Ready })
}

// endsWithHooks deletes the pod if that has not been done, and notes when.
func (p *fieldPod) endsWithHooks() {
	p.t.Helper()
	if _, err := os.Stat(filepath.Join(p.dir, "before")); err == nil {
		return
	}
	for _, container := range []string{"c", "signalled", "sleeps"} {
		p.eventually(container+" runs", func() error {
			_, err := os.Stat(filepath.Join(p.dir, container))
			return err
		})
	}
	p.until("runs", runs)
	now, err := os.ReadFile("/proc/uptime")
	if err == nil {
		err = os.WriteFile(filepath.Join(p.dir, "before"), now, 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.remove()
}

// uptime reads a copy of /proc/uptime.
func uptime(t *testing.T, path string) float64 {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seconds, err := strconv.ParseFloat(strings.Fields(string(content))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return seconds
}
