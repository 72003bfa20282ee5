package forward

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/jobd/jobd/api/clusters"
)

func TestBundle(t *testing.T) {
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	client := func(value string) *fake.Clientset {
		return fake.NewClientset(&corev1.ConfigMap{ObjectMeta: named("settings"), Data: map[string]string{"a": value}},
			&corev1.ConfigMap{ObjectMeta: named("unused")}, &corev1.Secret{ObjectMeta: named("token"), Data: map[string][]byte{"a": []byte(value)}})
	}
	l := here(func(j *batchv1.Job) {
		pod := &j.Spec.Template.Spec
		local := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
		pod.Containers[0].EnvFrom = []corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: local("settings")}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: local("token")}},
		}
		pod.Volumes = []corev1.Volume{
			{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("settings")}}},
			{Name: "w", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("there")}}},
		}
	})
	pack := func(value string, secrets bool) *batchv1.Job {
		f := &Forwarder{Options: Options{Secrets: secrets}, local: client(value), origin: origin}
		b, err := f.pack(t.Context(), l, "team-a")
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range b {
			if o.GetNamespace() != "team-a" || o.GetLabels()[clusters.OriginUIDLabel] != "here" {
				t.Errorf("copy %+v", o)
			}
		}
		c := Copy(l, "team-a", origin)
		b.rename(c)
		return c
	}
	c := pack("x", false)
	pod := &c.Spec.Template.Spec
	name := pod.Volumes[0].ConfigMap.Name
	if !strings.HasPrefix(name, "settings-") || pod.Containers[0].EnvFrom[0].ConfigMapRef.Name != name || pod.Volumes[1].ConfigMap.Name != "there" ||
		pod.Containers[0].EnvFrom[1].SecretRef.Name != "token" || c.Annotations[clusters.CopiedAnnotation] != `[{"Kind":"ConfigMap","Name":"`+name+`"}]` {
		t.Errorf("got %s, %s", text(pod), c.Annotations[clusters.CopiedAnnotation])
	}
	if l.Spec.Template.Spec.Volumes[0].ConfigMap.Name != "settings" {
		t.Error("the Job here was changed")
	}
	if again := pack("x", false); again.Spec.Template.Spec.Volumes[0].ConfigMap.Name != name {
		t.Error("the same has another name")
	}
	if other := pack("y", false); other.Spec.Template.Spec.Volumes[0].ConfigMap.Name == name {
		t.Error("other contents have the same name")
	}
	if c := pack("x", true); !strings.HasPrefix(c.Spec.Template.Spec.Containers[0].EnvFrom[1].SecretRef.Name, "token-") {
		t.Error("the Secret stays here")
	}
	if long := hashed(strings.Repeat("x", longestName), l); len(long) != longestName {
		t.Errorf("a name of %d characters", len(long))
	}
}
