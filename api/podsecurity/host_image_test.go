package podsecurity

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/hostimage"
	"github.com/jobd/jobd/api/hostpath"
	"github.com/jobd/jobd/api/runas"
)

// The reserved image is like a hostPath of /, but in the namespace of a user of this machine.
func TestHostImage(t *testing.T) {
	p, err := New(Configuration{})
	if err != nil {
		t.Fatal(err)
	}
	user := map[string]string{runas.UserAnnotation: "alice", runas.Annotation: "1000:1000"}
	for _, tc := range []struct {
		name, level string
		annotations map[string]string
		change      func(*corev1.PodSpec)
		want        string
	}{
		{"nobody's", "privileged", nil, nil, ""},
		{"nobody's", "baseline", nil, nil, `violates PodSecurity "baseline:latest": `},
		{"nobody's", "restricted", nil, nil, "host image"},
		{"nobody's, with a list", "privileged", map[string]string{hostpath.Annotation: "/srv"}, nil, "shows all paths of the host"},
		{"with a user, but no name", "baseline", map[string]string{runas.Annotation: "1000:1000"}, nil, "host image"},
		{"with a name, but no user", "baseline", map[string]string{runas.UserAnnotation: "alice"}, nil, "host image"},
		{"a user's", "baseline", user, nil, ""},
		{"a user's that cannot be read", "baseline", map[string]string{runas.UserAnnotation: "alice", runas.Annotation: "x"}, nil, "host image"},
		{"a user's, privileged", "baseline", user, func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(bool)}
			*s.Containers[0].SecurityContext.Privileged = true
		}, "privileged"},
		{"a user's, in the host's processes", "baseline", user, func(s *corev1.PodSpec) { s.HostPID = true }, "hostPID=true"},
		{"a user's, with an image", "baseline", user, func(s *corev1.PodSpec) { s.Containers[0].Image = "busybox" }, "hostNetwork=true"},
	} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: "n", Annotations: tc.annotations, Labels: map[string]string{"pod-security.kubernetes.io/enforce": tc.level},
		}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
		pod.Spec.Containers = []corev1.Container{{Name: "c", Image: hostimage.Name}}
		hostimage.Fill(&pod.Spec)
		if tc.change != nil {
			tc.change(&pod.Spec)
		}
		err := p.Refusal(t.Context(), ns, pod, admissionv1.Create, "you")
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s, %s: %v, want %q", tc.name, tc.level, err, tc.want)
		}
		if pod.Spec.Containers[0].Image == "excused" || !pod.Spec.HostNetwork {
			t.Errorf("%s: the pod was changed: %+v", tc.name, pod.Spec)
		}
	}
}
