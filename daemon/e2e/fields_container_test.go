package e2e

import (
	"encoding/base64"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/sys/unix"
)

// ofC is a spec in which c has a field.
func ofC(field string) string { return `containers: [{name: c, ` + field + `}]` }

// of is a spec with another container that has a field.
func of(container, field string) string {
	return `containers: [{name: ` + container + `, ` + field + `}]`
}

// sayings is a spec of a container c that runs a script and ends.
func sayings(script, more string) string {
	quoted, _ := json.Marshal(script)
	return `containers: [{name: c, command: [sh, -c, ` + string(quoted) + `], ` + more + `}]`
}

// containerFieldCases are about what a container is, its environment and its end.
var containerFieldCases = []fieldCase{
	{fields: "PodSpec.containers Container.name", pod: "containers", spec: `containers: [{name: second}]`,
		in: "second", run: `tr '\0' ' ' </proc/1/cmdline`, want: "sleep 1000000"},
	{fields: "PodSpec.initContainers", pod: "containers",
		spec: `{volumes: [{name: v, emptyDir: {}}], containers: [{name: c, volumeMounts: [{name: v, mountPath: /v}]}],
			initContainers: [{name: i, command: [sh, -c, echo first >/v/init], volumeMounts: [{name: v, mountPath: /v}]}]}`,
		run: `cat /v/init`, want: "first"},
	{
		fields: "Container.image", pod: "containers", spec: of("other", `image: "other:1"`), in: "other",
		run: `cat /content; echo $FROM; pwd`, want: "other\nimage\n/bin",
	},
	{fields: "Container.imagePullPolicy", test: "TestImagePullSecrets"},
	{fields: "Container.resizePolicy ContainerResizePolicy.resourceName ContainerResizePolicy.restartPolicy", test: "TestResize"},
	{
		fields: "Container.command", pod: "containers", spec: of("commanded", `command: [sleep, "12345"]`), in: "commanded",
		run: `tr '\0' ' ' </proc/1/cmdline`, want: "sleep 12345",
	},
	{
		fields: "Container.args", pod: "containers", spec: of("argued", `command: [sh, -c], args: [exec sleep 54321]`),
		in: "argued", run: `tr '\0' ' ' </proc/1/cmdline`, want: "sleep 54321",
	},
	{
		fields: "Container.workingDir", pod: "containers", spec: of("elsewhere", `workingDir: /to/be/made`), in: "elsewhere",
		run: `pwd; readlink /proc/1/cwd`, want: "/to/be/made\n/to/be/made",
	},
	{fields: "Container.stdin", test: "TestAttach"},
	{fields: "Container.tty Container.stdinOnce", test: "TestRunInteractively"},
	{fields: "Container.restartPolicy Container.restartPolicyRules ContainerRestartRule.action ContainerRestartRule.exitCodes " +
		"ContainerRestartRuleOnExitCodes.operator ContainerRestartRuleOnExitCodes.values",
		test: "TestRestartPolicyRules"},
	{fields: "Container.terminationMessagePath", pod: "messages",
		spec:  sayings(`printf because >/tmp/why`, `terminationMessagePath: /tmp/why`),
		check: func(t *testing.T, p *fieldPod) { p.hasSaid("c", "because") }},
	{fields: "Container.terminationMessagePolicy", pod: "messages",
		spec:  of("logs", `command: [sh, -c, echo logged; exit 3], terminationMessagePolicy: FallbackToLogsOnError`),
		check: func(t *testing.T, p *fieldPod) { p.hasSaid("logs", "logged\n") }},

	{fields: "Container.env EnvVar.name EnvVar.value", pod: "variables", spec: ofC(
		`env: [{name: PLAIN, value: word}, {name: DERIVED, value: "$(PLAIN)s $$(PLAIN)"}]`,
	),
		run: `echo "$PLAIN $DERIVED"; tr '\0' '\n' </proc/1/environ | grep ^PLAIN`, want: "word words $(PLAIN)\nPLAIN=word"},
	{fields: "EnvVar.valueFrom EnvVarSource.fieldRef ObjectFieldSelector.fieldPath", pod: "variables",
		spec: ofC(`env: [{name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: NOTE, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['note']"}}},
			{name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}, {name: ACCOUNT, valueFrom: {fieldRef: {fieldPath: spec.serviceAccountName}}}]`),
		run: `echo "$NAME, $NOTE, $NODE, $ACCOUNT"`, want: "variables, of variables, NODENAME, default"},
	{fields: "ObjectFieldSelector.apiVersion", pod: "variables", spec: ofC(
		`env: [{name: VERSIONED, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}}]`,
	),
		run: `echo $VERSIONED`, want: "default"},
	{fields: "EnvVarSource.resourceFieldRef ResourceFieldSelector.resource ResourceFieldSelector.divisor", pod: "variables",
		spec: ofC(`resources: {requests: {cpu: 1500m}, limits: {memory: 64Mi}}, env: [{name: CPU, valueFrom: {resourceFieldRef: {resource: requests.cpu}}},
			{name: MILLICPU, valueFrom: {resourceFieldRef: {resource: requests.cpu, divisor: 1m}}}, {name: MEMORY, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}]`),
		run: `echo $CPU $MILLICPU $MEMORY`, want: "2 1500 64"},
	{fields: "EnvVarSource.configMapKeyRef ConfigMapKeySelector.name ConfigMapKeySelector.key", pod: "variables",
		spec: ofC(`env: [{name: COLOR, valueFrom: {configMapKeyRef: {name: settings, key: color}}}]`), run: `echo $COLOR`, want: "blue"},
	{fields: "EnvVarSource.secretKeyRef SecretKeySelector.name SecretKeySelector.key", pod: "variables",
		spec: ofC(`env: [{name: LOGIN, valueFrom: {secretKeyRef: {name: login, key: user}}}]`), run: `echo $LOGIN`, want: "me"},
	{fields: "ConfigMapKeySelector.optional SecretKeySelector.optional", pod: "variables",
		spec: ofC(
			`env: [{name: NO_COLOR, valueFrom: {configMapKeyRef: {name: settings, key: missing, optional: true}}}, {name: NO_LOGIN, valueFrom: {secretKeyRef: {name: missing, key: user, optional: true}}}]`,
		),
		run: `echo ${NO_COLOR-unset} ${NO_LOGIN-unset}`, want: "unset unset"},
	{
		fields: "EnvVarSource.fileKeyRef FileKeySelector.volumeName FileKeySelector.path FileKeySelector.key FileKeySelector.optional",
		test:   "TestVariablesFromAFile",
	},
	{fields: "Container.envFrom EnvFromSource.configMapRef ConfigMapEnvSource.name EnvFromSource.secretRef SecretEnvSource.name", pod: "variables",
		spec: of(
			"all", `envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: login}}]`,
		), in: "all", run: `echo $color $shape $user $password`, want: "blue round me pw"},
	{fields: "EnvFromSource.prefix", pod: "variables",
		spec: of(
			"prefixed", `envFrom: [{prefix: MY_, configMapRef: {name: settings}}]`,
		), in: "prefixed", run: `echo $MY_color ${color-unset}`, want: "blue unset"},
	{fields: "ConfigMapEnvSource.optional SecretEnvSource.optional", pod: "variables",
		spec: of(
			"optional",
			`envFrom: [{configMapRef: {name: missing, optional: true}}, {secretRef: {name: missing, optional: true}}]`,
		), in: "optional", run: `echo runs`, want: "runs"},
	{fields: "PodSpec.enableServiceLinks", pod: "links", spec: `{enableServiceLinks: true}`,
		run: `echo $LINKED_SERVICE_PORT; env | grep -c ^HEADLESS; [ -n "$KUBERNETES_SERVICE_HOST" ] && echo API`, want: "80\n0\nAPI"},
	{fields: "PodSpec.enableServiceLinks", pod: "no-links", spec: `{enableServiceLinks: false}`,
		run: `env | grep -c ^LINKED; [ -n "$KUBERNETES_SERVICE_HOST" ] && echo API`, want: "0\nAPI"},

	{fields: "Container.resources ResourceRequirements.limits ResourceRequirements.requests PodSpec.overhead[cpu]", test: "TestLimitsAreTheContainersCgroup"},
	{fields: "PodSpec.overhead[memory]", test: "TestOOMKilledIsToldFromAKill"},
	{fields: "PodSpec.overhead[ephemeral-storage]", test: "TestEphemeralStorage"},
	{fields: "PodSpec.overhead[hugepages-*]", test: "TestHugePages"},
	{fields: "PodSpec.overhead[*]", test: "TestDevices"},
	{fields: "PodSpec.overhead", test: "TestRuntimeClasses"},
	{fields: "PodSpec.resources", test: "TestResourcesOfAWholePod"},
	{fields: "ResourceRequirements.claims", spec: ofC(`resources: {claims: [{name: a}]}`)},

	{fields: "Container.ports ContainerPort.hostPort ContainerPort.containerPort", test: "TestHostPort"},
	{fields: "ContainerPort.name", pod: "ports", spec: `{restartPolicy: Always, containers: [{name: c, ports: [{name: web, containerPort: HTTPPORT}],
			readinessProbe: {periodSeconds: 1, timeoutSeconds: 60, httpGet: {host: 127.0.0.1, port: web, path: /ports/named}}}]}`,
		check: func(t *testing.T, p *fieldPod) { p.request("/ports/named") }},
	{fields: "ContainerPort.protocol", spec: ofC(`ports: [{containerPort: 5353, hostPort: HOSTPORT, protocol: UDP}]`), needs: bridge, check: udpPort},
	{fields: "ContainerPort.hostIP", spec: ofC(`ports: [{containerPort: 80, hostPort: 8080, hostIP: "::1"}]`)},
}

// bridge says what a daemon without a bridge cannot show.
func bridge(d *daemon) string {
	if strings.Contains(d.output.String(), "network     bridge ") {
		return ""
	}
	return "a bridge"
}

// users says what a kernel cannot show that maps the ids of no file system, or not of those that the daemon is on.
func users(d *daemon) string {
	if strings.Contains(d.output.String(), "no pod can have a user namespace of its own") {
		return "user namespaces of pods"
	}
	return ""
}

// loops says what a kernel without loop devices cannot show.
func loops(*daemon) string {
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return "loop devices"
	}
	return ""
}

// hasSaid checks the message with which a container has ended.
func (p *fieldPod) hasSaid(container, message string) {
	p.t.Helper()
	pod := p.until("has ended", ended)
	if got := p.status(pod, container).State.Terminated.Message; got != message {
		p.t.Errorf("%s has ended with the message %q, want %q", container, got, message)
	}
}

// pid returns the process of c, as the host sees it.
func (p *fieldPod) pid() string {
	p.t.Helper()
	pod := p.until("runs", runs)
	files, _ := filepath.Glob(filepath.Join(p.state, "shards/*/containers", "*"+string(pod.UID)+"*", "pid"))
	if len(files) != 1 {
		p.t.Fatalf("pod %s has %d containers", p.name, len(files))
	}
	pid, err := os.ReadFile(files[0])
	if err != nil {
		p.t.Fatal(err)
	}
	return string(pid)
}

// udpPort sends datagrams to the port of the host, and answers them in the network of the pod.
func udpPort(t *testing.T, p *fieldPod) {
	inside, err := os.Open("/proc/" + p.pid() + "/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	listening := make(chan net.PacketConn)
	go func() {
		defer close(listening)
		runtime.LockOSThread()
		outside, err := os.Open("/proc/thread-self/ns/net")
		if err != nil || unix.Setns(int(inside.Fd()), unix.CLONE_NEWNET) != nil {
			return // and the thread ends
		}
		defer outside.Close()
		conn, err := net.ListenPacket("udp4", ":5353")
		if unix.Setns(int(outside.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		if err == nil {
			listening <- conn
		}
	}()
	server := <-listening
	if server == nil {
		t.Fatal("cannot listen in the pod's network")
	}
	defer server.Close()
	go func() {
		buffer := make([]byte, 64)
		for {
			n, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = server.WriteTo(buffer[:n], from)
		}
	}()
	client, err := net.Dial("udp4", p.world.words(p.name).Replace("127.0.0.1:HOSTPORT"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	p.eventually("a datagram comes back", func() error {
		buffer := make([]byte, 64)
		if _, err := client.Write([]byte("hello")); err != nil {
			return err
		}
		_ = client.SetReadDeadline(time.Now().Add(time.Second))
		n, err := client.Read(buffer)
		if err == nil && string(buffer[:n]) != "hello" {
			t.Errorf("it says %q", buffer[:n])
		}
		return err
	})
}

// claims are those of a token of a service account.
type claims struct {
	Audience jwt.Audience `json:"aud"`
	Issued   int64        `json:"iat"`
	Expires  int64        `json:"exp"`
	Subject  string       `json:"sub"`
}

func claimsOf(t *testing.T, token string) (c claims) {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("%q is no token", token)
	}
	content, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(content, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}
