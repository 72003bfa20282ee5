package podsecurity

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	c.Defaults.Enforce, c.Exemptions.Usernames = "baseline", []string{"me"}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	const want = `pods "p" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostPID=true)`
	for _, tc := range []struct {
		name, user string
		policy     *Policy
		labels     map[string]string
		want       string
	}{
		{"by default", "you", p, nil, want},
		{"an exempt user", "me", p, nil, ""},
		{"a label", "you", p, map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}, ""},
		{"a label that makes no sense", "you", p, map[string]string{"pod-security.kubernetes.io/enforce": "x"}, `pods "p" is forbidden: violates PodSecurity "restricted:latest": `},
		{"no policy", "you", nil, nil, ""},
	} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: tc.labels}}
		err := tc.policy.Refusal(t.Context(), ns, pod, admissionv1.Create, tc.user)
		if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}
