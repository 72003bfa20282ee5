package podsecurity

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/hostpath"
)

func TestConfigurationIsChecked(t *testing.T) {
	for manifest, want := range map[string]string{
		`{}`: "",
		`{apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, defaults: {enforce: baseline, enforce-version: v1.30}}`: "",
		`{kind: Pod}`:                             `kind: Invalid value: "Pod": must be PodSecurityConfiguration`,
		`{defaults: {enforce: strict}}`:           `defaults.enforce: Invalid value: "strict": must be one of privileged, baseline, restricted`,
		`{defaults: {warn-version: "1.30"}}`:      `defaults.warn-version: Invalid value: "1.30": must be "latest" or "v1.x"`,
		`{exemptions: {namespaces: [a, a]}}`:      `exemptions.namespaces[1]: Duplicate value: "a"`,
		`{exemptions: {runtimeClasses: ["A B"]}}`: `exemptions.runtimeClasses[0]: Invalid value: "A B"`,
		`{exemptions: {usernames: [""]}}`:         `exemptions.usernames[0]: Invalid value: "": username must not be empty`,
	} {
		var c Configuration
		if err := yaml.UnmarshalStrict([]byte(manifest), &c); err != nil {
			t.Fatal(err)
		}
		_, err := New(c)
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", manifest, err, want)
		}
	}
}

func TestRefusal(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{HostPID: true}}
	var c Configuration
	c.Defaults.Enforce = "baseline"
	c.Exemptions.Usernames, c.Exemptions.RuntimeClasses = []string{"me"}, []string{"sandbox"}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	const want = `pods "p" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostPID=true)`
	for _, tc := range []struct {
		name, user, class string
		policy            *Policy
		labels            map[string]string
		want              string
	}{
		{"by default", "you", "", p, nil, want},
		{"an exempt user", "me", "", p, nil, ""},
		{"a label", "you", "", p, map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}, ""},
		{
			"a label that makes no sense", "you", "", p, map[string]string{"pod-security.kubernetes.io/enforce": "x"},
			`pods "p" is forbidden: violates PodSecurity "restricted:latest": `,
		},
		{"no policy", "you", "", nil, nil, ""},
		{"an exempt runtime class", "you", "sandbox", p, nil, ""},
	} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: tc.labels}}
		pod.Spec.RuntimeClassName = &tc.class
		err := tc.policy.Refusal(t.Context(), ns, pod, admissionv1.Create, tc.user)
		if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}

// Images are mounted at every level, NFS only where a pod is not restricted.
func TestVolumeTypes(t *testing.T) {
	p, err := New(Configuration{})
	if err != nil {
		t.Fatal(err)
	}
	image := corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "i"}}
	nfs := corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}}
	for _, tc := range []struct {
		level   string
		source  corev1.VolumeSource
		refused bool
	}{{"baseline", image, false}, {"restricted", image, false}, {"baseline", nfs, false}, {"restricted", nfs, true}} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"pod-security.kubernetes.io/enforce": tc.level}}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: tc.source}}
		err := p.Refusal(t.Context(), ns, pod, admissionv1.Create, "you")
		if refused := err != nil && strings.Contains(err.Error(), "restricted volume types"); refused != tc.refused {
			t.Errorf("%s, %+v: %v", tc.level, tc.source, err)
		}
	}
}

// A list of host paths is an exception from what a level forbids, and forbids the rest.
func TestListedHostPaths(t *testing.T) {
	p, err := New(Configuration{})
	if err != nil {
		t.Fatal(err)
	}
	pod := func(path string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}}}
		return p
	}
	const notListed = `pods "p" is forbidden: spec.volumes[0].hostPath.path: Forbidden: "/etc" is not among the paths that the namespace allows: /data`
	for _, tc := range []struct{ name, level, list, path, want string }{
		{"no list", "privileged", "-", "/etc", ""},
		{
			"no list, and a level that forbids it", "baseline", "-", "/data",
			`pods "p" is forbidden: violates PodSecurity "baseline:latest": hostPath volumes (volume "v")`,
		},
		{"listed", "privileged", "/data", "/data/x", ""},
		{"listed, and a level that forbids others", "baseline", "/data", "/data/x", ""},
		{"not listed", "privileged", "/data", "/etc", notListed},
		{"not listed, and a level that forbids it", "baseline", "/data", "/etc", notListed},
		{
			"a list that makes no sense", "baseline", "data", "/data",
			`pods "p" is forbidden: spec.volumes[0].hostPath.path: Forbidden: "/data" is not among the paths that the namespace allows: none`,
		},
	} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"pod-security.kubernetes.io/enforce": tc.level}}}
		if tc.list != "-" {
			ns.Annotations = map[string]string{hostpath.Annotation: tc.list}
		}
		it := pod(tc.path)
		err := p.Refusal(t.Context(), ns, it, admissionv1.Create, "you")
		if (err == nil) != (tc.want == "") || err != nil && err.Error() != tc.want {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
		if it.Spec.Volumes[0].HostPath == nil {
			t.Errorf("%s: the pod was changed", tc.name)
		}
	}
}
