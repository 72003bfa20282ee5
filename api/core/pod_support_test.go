package core

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// A field that a new version of the API brings is not ignored: it is classified, or this fails.
func TestEveryFieldOfAPodIsClassified(t *testing.T) {
	reached := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		if reached[typ] {
			return
		}
		reached[typ] = true
		rules, ok := podSupport[typ]
		if !ok {
			t.Errorf("%v can be reached through honoured fields and is not classified", typ)
			return
		}
		left := map[string]bool{}
		for name := range rules {
			left[name] = true
		}
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				visit(f.Type)
				continue
			}
			rule, ok := rules[name]
			if !ok {
				t.Errorf("%v.%s is not classified", typ, name)
			}
			delete(left, name)
			if inner := structBelow(f.Type); ok && rule.effect == honours && inner != nil {
				visit(inner)
			}
			if ok && rule.effect != honours && rule.reason == "" {
				t.Errorf("%v.%s is not honoured, and nothing says why", typ, name)
			}
		}
		for name := range left {
			t.Errorf("%v has no field %q", typ, name)
		}
	}
	visit(reflect.TypeFor[corev1.PodSpec]())
	reached[reflect.TypeFor[corev1.ResourceList]()] = true
	for typ := range podSupport {
		if !reached[typ] {
			t.Errorf("%v is classified but no honoured field leads to it", typ)
		}
	}
}

// structBelow returns the struct of the API that a field holds, be it by pointer or in a list.
func structBelow(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString](), reflect.TypeFor[metav1.ObjectMeta](),
		reflect.TypeFor[metav1.LabelSelector]():
		return nil // what every kind of object has
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

func TestWhatJobdDoesNotHonourIsSaid(t *testing.T) {
	for _, tc := range []struct{ name, spec, refused, warned string }{
		{
			"a plain pod is honoured",
			`containers: [{name: c, image: i, command: [a], env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}]`,
			"", "",
		},
		{"a probe is fine", `containers: [{name: c, livenessProbe: {exec: {command: [a]}}}]`, "", ""},
		{"a hook and a stop signal are fine", `containers: [{name: c, lifecycle: {preStop: {exec: {command: [a]}}, stopSignal: SIGINT}}]`, "", ""},
		{"a sidecar is fine", `initContainers: [{name: c, restartPolicy: Always}]`, "", ""},
		{"a terminal is honoured", `containers: [{name: c, stdin: true, stdinOnce: true, tty: true}]`, "", ""},
		{
			"configuration is honoured",
			`{volumes: [{name: v, configMap: {name: a, items: [{key: k, path: p}]}}], containers: [{name: c, envFrom: [{secretRef: {name: s}}], env: [{name: A, valueFrom: {secretKeyRef: {key: k, name: s}}}]}]}`,
			"", "",
		},
		{
			"what is projected is honoured",
			`volumes: [{name: v, projected: {sources: [{secret: {name: a}}, {serviceAccountToken: {path: t, audience: vault, expirationSeconds: 600}}]}}]`,
			"", "",
		},
		{"a service account is honoured", `{serviceAccountName: robot, automountServiceAccountToken: true}`, "", ""},
		{
			"volumes of this machine are honoured",
			`volumes: [{name: a, emptyDir: {medium: Memory, sizeLimit: 1Gi}}, {name: b, hostPath: {path: /x, type: Directory}}]`,
			"", "",
		},
		{"a limit of a volume on disk is honoured", `volumes: [{name: a, emptyDir: {sizeLimit: 1Gi}}]`, "", ""},
		{"huge pages as a volume are honoured", `volumes: [{name: a, emptyDir: {medium: HugePages}}, {name: b, emptyDir: {medium: HugePages-2Mi}}]`, "", ""},
		{"resources are honoured, with a limit of disk", `containers: [{name: c, resources: {limits: {cpu: 1, memory: 1Gi, nvidia.com/gpu: 1, ephemeral-storage: 1Gi}}}]`,
			"", ""},
		{"where a pod goes among several nodes has no effect", `{nodeSelector: {disk: ssd}, schedulerName: mine, affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}]}}, tolerations: [{operator: Exists}], topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway}]}`,
			"", "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution spec.schedulerName " +
				"spec.topologySpreadConstraints[0].whenUnsatisfiable"},
		{
			"who a pod must be with is decided",
			`{affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a}]}}, topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]}`,
			"", "",
		},
		{
			"a selector is honoured",
			`{nodeSelector: {kubernetes.io/os: linux}, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}}`,
			"", "",
		},
		{"false is a word", `{shareProcessNamespace: false, hostUsers: true, automountServiceAccountToken: false}`, "", ""},
		{"users of its own are honoured", `{shareProcessNamespace: true, hostUsers: false}`, "", ""},
		{"a port of the host leads to the pod", `containers: [{name: c, ports: [{containerPort: 80, hostPort: 80, hostIP: 127.0.0.1}]}]`, "", ""},
		{
			"an IPv6 address of the host does not",
			`containers: [{name: c, ports: [{containerPort: 80, hostPort: 80, hostIP: "::1"}]}]`,
			"spec.containers[0].ports[0].hostIP", "",
		},
		{"in its network it is there", `{hostNetwork: true, containers: [{name: c, ports: [{containerPort: 80, hostPort: 80}]}]}`, "", ""},
		{"a seccomp profile of one's own is honoured", `securityContext: {seccompProfile: {type: Localhost, localhostProfile: a.json}}`, "", ""},
		{
			"the runtime's is honoured",
			`containers: [{name: c, securityContext: {seccompProfile: {type: RuntimeDefault}, privileged: true, capabilities: {add: [ALL]}}}]`,
			"", "",
		},
		{
			"AppArmor is asked of the host",
			`{securityContext: {appArmorProfile: {type: RuntimeDefault}}, containers: [{name: c, securityContext: {appArmorProfile: {type: Localhost, localhostProfile: mine}}}]}`,
			"", "",
		},
		{
			"it is the node that rejects sysctls",
			`securityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: "1"}, {name: kernel.msgmax, value: "1"}]}`, "",
			"",
		},
		{"and pods of Windows", `{os: {name: windows}, securityContext: {windowsOptions: {runAsUserName: me}}}`, "", "spec.securityContext.windowsOptions"},
		{"SELinux is the host's matter", `{securityContext: {seLinuxOptions: {level: "s0:c1,c2"}, seLinuxChangePolicy: Recursive}}`, "", ""},
		{"mounts that spread are honoured", `containers: [{name: c, volumeMounts: [{name: a, mountPath: /a, mountPropagation: Bidirectional}, {name: a, mountPath: /b, mountPropagation: HostToContainer, subPath: x}]}]`,
			"", ""},
		{"priority classes count", `priorityClassName: mine`, "", ""},
		{"pull secrets are used", `imagePullSecrets: [{name: a}]`, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var spec corev1.PodSpec
			if err := yaml.UnmarshalStrict([]byte(tc.spec), &spec); err != nil {
				t.Fatal(err)
			}
			var refused, warned []string
			for _, e := range unsupported(&spec, field.NewPath("spec")) {
				refused = append(refused, e.Field)
			}
			for _, w := range warnings(&spec, field.NewPath("spec")) {
				at, _, _ := strings.Cut(w, ": ")
				warned = append(warned, at)
			}
			if got := strings.Join(refused, " "); got != tc.refused {
				t.Errorf("refused %q, want %q", got, tc.refused)
			}
			if got := strings.Join(warned, " "); got != tc.warned {
				t.Errorf("warned of %q, want %q", got, tc.warned)
			}
		})
	}
}

func TestDefaultsNeedNoWarning(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	SetPodDefaults(pod)
	PreparePod(pod, someTime)
	path := field.NewPath("spec")
	if errs, warnings := unsupported(&pod.Spec, path), warnings(&pod.Spec, path); len(errs)+len(warnings) > 0 {
		t.Errorf("refused %v, warned %v", errs, warnings)
	}
	pod.Spec.SchedulerName = "other"
	pod.Spec.NodeName = "other"
	if w := warnings(&pod.Spec, path); len(w) != 1 || !strings.HasPrefix(w[0], "spec.schedulerName: ") {
		t.Errorf("warned %v", w)
	}
	if e := unsupported(&pod.Spec, path); len(e) > 0 {
		t.Errorf("refused %v", e)
	}
}
