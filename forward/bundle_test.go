package forward

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/internal/handover"
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
		pod.Containers[0].EnvFrom[1].SecretRef.Name != "token" {
		t.Errorf("got %s", text(pod))
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

// naming returns a Job that names a ConfigMap and a Secret.
func naming(j *batchv1.Job) {
	j.Spec.Template.Spec.Volumes = []corev1.Volume{
		{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}},
		{Name: "w", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}},
	}
}

// copyMeta is that of a copy there which was made for a Job.
func copyMeta(name, of string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{
		clusters.OriginLabel: string(origin.Jobd), clusters.OriginUIDLabel: of, clusters.MachineLabel: origin.Machine,
	}, Annotations: map[string]string{clusters.NamespaceAnnotation: "default", clusters.JobAnnotation: "j"}}
}

// A Job there is given what came with it, and nothing of somebody else, whatever is written on it: it would go with the Job.
func TestOwnsNothingOfOthers(t *testing.T) {
	foreign := metav1.ObjectMeta{Namespace: "default", Name: "foreign"}
	l := here(held, naming)
	r := there(l)
	r.Annotations["clusters.jobd.dev/copied"] = `[{"Kind":"Secret","Name":"foreign"},{"Kind":"ConfigMap","Name":"foreign"}]`
	f := cluster(l)
	f.remote = fake.NewClientset(r, &corev1.Secret{ObjectMeta: foreign}, &corev1.ConfigMap{ObjectMeta: foreign},
		&corev1.Secret{ObjectMeta: copyMeta("s-1", "here")}, &corev1.ConfigMap{ObjectMeta: copyMeta("s-2", "here")},
		&corev1.ConfigMap{ObjectMeta: copyMeta("s-former", "here")}, // of what the ConfigMap was when the Job was refused
		&corev1.ConfigMap{ObjectMeta: copyMeta("t-1", "another")})
	if err := f.own(t.Context(), l, r); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{configMap, secret} {
		all, err := f.copiesOf(kind, "default").list(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range all {
			want := strings.HasPrefix(o.GetName(), "s-")
			if got := metav1.IsControlledBy(o, r) || len(o.GetOwnerReferences()) > 0; got != want {
				t.Errorf("%s %s has %v as owners", kind, o.GetName(), o.GetOwnerReferences())
			}
		}
	}
}

// Without the right to see Secrets there, and without any that were sent, a Job is made all the same.
func TestOwnWithoutSecrets(t *testing.T) {
	for _, sent := range []bool{false, true} {
		l := here(held, naming)
		f := cluster(l)
		f.Secrets = sent
		f.remote.(*fake.Clientset).PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(corev1.Resource("secrets"), "", nil)
		})
		if err := f.own(t.Context(), l, there(l)); (err != nil) != sent {
			t.Errorf("Secrets go there: %v, and %v", sent, err)
		}
	}
}

// What somebody has put in the place of a copy does not go into the pods of a Job.
func TestSomebodyElsesCopy(t *testing.T) {
	l := here(held, naming)
	for name, c := range map[string]struct {
		change func(*corev1.ConfigMap)
		wrong  bool
	}{
		"it was made by an earlier try": {func(*corev1.ConfigMap) {}, false},
		"by another machine of ours":    {func(c *corev1.ConfigMap) { c.Labels[clusters.MachineLabel] = "machine-2" }, false},
		"by somebody":                   {func(c *corev1.ConfigMap) { c.Labels = nil }, true},
		"for another Job":               {func(c *corev1.ConfigMap) { c.Labels[clusters.OriginUIDLabel] = "other" }, true},
		"with other contents":           {func(c *corev1.ConfigMap) { c.Data["a"] = "c" }, true},
	} {
		f := cluster(l, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}, Data: map[string]string{"a": "b"}})
		b, err := f.pack(t.Context(), l, "default")
		if err != nil || len(b) != 1 {
			t.Fatal(b, err)
		}
		for _, o := range b {
			is := o.(*corev1.ConfigMap).DeepCopy()
			c.change(is)
			f.remote = fake.NewClientset(is)
		}
		if err := f.send(t.Context(), b); (err != nil) != c.wrong || err != nil && !handover.Refused(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
