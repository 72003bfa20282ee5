package core

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

func TestAppArmorAnnotations(t *testing.T) {
	const key = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(`
spec:
  securityContext: {appArmorProfile: {type: RuntimeDefault}}
  initContainers: [{name: local}]
  containers:
  - {name: same}
  - {name: free}
  - {name: other, securityContext: {appArmorProfile: {type: Unconfined}}}
  - {name: wrong}
`), &pod); err != nil {
		t.Fatal(err)
	}
	pod.Annotations = map[string]string{
		key + "local": "localhost/mine", key + "same": "runtime/default", key + "free": "unconfined",
		key + "other": "runtime/default", key + "wrong": "some", key + "missing": "unconfined",
	}
	PreparePod(&pod, time.Now())
	got := map[string]string{}
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		if c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			got[c.Name] = string(c.SecurityContext.AppArmorProfile.Type)
		}
	}
	if diff := cmp.Diff(map[string]string{"local": "Localhost", "free": "Unconfined", "other": "Unconfined"}, got); diff != "" {
		t.Error(diff)
	}
	if profile := pod.Spec.InitContainers[0].SecurityContext.AppArmorProfile.LocalhostProfile; profile == nil || *profile != "mine" {
		t.Errorf("the local profile is %v", profile)
	}
	want := strings.ReplaceAll(`metadata.annotations[KEYmissing]: Invalid value: "missing": container not found
spec.containers[2].securityContext.appArmorProfile.type: Forbidden: apparmor type in annotation and field must match
metadata.annotations[KEYwrong]: Invalid value: "some": invalid AppArmor profile name: "some"`, "KEY", key)
	var said []string
	for _, err := range validateAppArmorAnnotations(pod.Annotations, field.NewPath("metadata", "annotations"), &pod.Spec, field.NewPath("spec")) {
		said = append(said, err.Error())
	}
	if diff := cmp.Diff(want, strings.Join(said, "\n")); diff != "" {
		t.Error(diff)
	}
	if w := podWarnings(&pod); len(w) != 6 || !strings.HasPrefix(w[0], "metadata.annotations["+key+"free]: deprecated since v1.30; ") {
		t.Errorf("warnings: %q", w)
	}
}
