package handover

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/images"
)

const whole = `
metadata:
  name: j
  annotations: {jobd.dev/after: a, jobd.dev/window: "22:00-06:00", jobd.dev/moved-from: x, jobd.dev/array: 1-4, other.dev/x: y}
spec:
  template:
    metadata: {annotations: {jobd.dev/signal: USR1@10s}}
    spec:
      serviceAccountName: runner
      priorityClassName: high
      runtimeClassName: gvisor
      volumes:
      - {name: a, persistentVolumeClaim: {claimName: data}}
      - {name: b, configMap: {name: settings}}
      - {name: c, secret: {secretName: key, optional: true}}
      - {name: d, hostPath: {path: /srv}}
      - {name: e, projected: {sources: [{configMap: {name: settings}}, {secret: {name: cert}}, {configMap: {name: maybe, optional: true}}]}}
      - {name: f, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: fast}}}}
      - {name: g, emptyDir: {}}
      initContainers:
      - {name: i, image: jobd.dev/host}
      containers:
      - name: c
        image: trainer:1
        envFrom: [{secretRef: {name: token}}, {configMapRef: {name: vars}}]
        env: [{name: A, valueFrom: {secretKeyRef: {name: token, key: a}}}, {name: B, valueFrom: {configMapKeyRef: {name: vars, key: b}}}, {name: C, value: c}]
      - {name: d, image: "busybox:1.36"}
`

func wholeJob(t *testing.T) *batchv1.Job {
	t.Helper()
	j := &batchv1.Job{}
	if err := yaml.Unmarshal([]byte(whole), j); err != nil {
		t.Fatal(err)
	}
	return j
}

func TestNeeds(t *testing.T) {
	w := OfJob(wholeJob(t))
	w.Brings = []string{"ConfigMap/vars", "Secret/other"}
	var got []string
	for _, n := range Needs(w) {
		got = append(got, fmt.Sprintf("%s: %s %s", n.Field, n.Kind, n.Name))
	}
	const at = "spec.template.spec."
	want := []string{
		at + "serviceAccountName: ServiceAccount runner", at + "priorityClassName: PriorityClass high", at + "runtimeClassName: RuntimeClass gvisor",
		at + "volumes[0].persistentVolumeClaim.claimName: PersistentVolumeClaim data", at + "volumes[1].configMap.name: ConfigMap settings",
		at + "volumes[4].projected.sources[0].configMap.name: ConfigMap settings", at + "volumes[4].projected.sources[1].secret.name: Secret cert",
		at + "volumes[5].ephemeral.volumeClaimTemplate.spec.storageClassName: StorageClass fast",
		at + "containers[0].envFrom[0].secretRef.name: Secret token", at + "containers[0].env[0].valueFrom.secretKeyRef.name: Secret token",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestLook(t *testing.T) {
	client := fake.NewClientset(
		&corev1.ConfigMap{ObjectMeta: meta("settings")}, &corev1.ServiceAccount{ObjectMeta: meta("runner")}, &corev1.Secret{ObjectMeta: meta("token")},
	)
	there, err := Look(t.Context(), client, "default", "big", false, Needs(OfJob(wholeJob(t))))
	var lacks []string
	for _, n := range there.Lacks {
		lacks = append(lacks, n.Kind+"/"+n.Name)
	}
	want := "PriorityClass/high RuntimeClass/gvisor PersistentVolumeClaim/data Secret/cert StorageClass/fast ConfigMap/vars ConfigMap/vars"
	if got := strings.Join(lacks, " "); err != nil || got != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, got, want)
	}
}

func TestCheck(t *testing.T) {
	here := []images.Image{
		{Name: "docker.io/library/trainer:1", Local: true}, {Name: "docker.io/library/busybox:1.36"},
	}
	said := func(there There) string {
		var all []string
		for _, f := range Check(OfJob(wholeJob(t)), here, there) {
			mark := " "
			if f.Wrong {
				mark = "!"
			}
			all = append(all, mark+f.Field)
		}
		return strings.Join(all, "\n")
	}
	want := strings.Join([]string{
		"!spec.template.spec.initContainers[0].image", "!spec.template.spec.containers[0].image", "!spec.template.spec.volumes[0]",
		"!spec.template.spec.volumes[3].hostPath.path", "!metadata.annotations[jobd.dev/after]", " metadata.annotations[jobd.dev/window]",
		" spec.template.metadata.annotations[jobd.dev/signal]",
	}, "\n")
	lacks := []Need{{Object{"PersistentVolumeClaim", "data"}, "spec.template.spec.volumes[0]"}}
	if got := said(There{Name: "big", Lacks: lacks}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// Another jobd knows the annotations and commands of a machine, and may have the image.
	const image, path = "spec.template.spec.containers[0].image", "!spec.template.spec.volumes[3].hostPath.path"
	for want, there := range map[string]There{
		"!" + image + "\n" + path: {Name: "lab", Jobd: true, Images: []images.Image{}},
		" " + image + "\n" + path: {Name: "lab", Jobd: true}, // it does not tell of its images
		path:                      {Name: "lab", Jobd: true, Images: here[:1]},
	} {
		if got := said(there); got != want {
			t.Errorf("%+v: got\n%s\nwant\n%s", there, got, want)
		}
	}
}

func TestDropped(t *testing.T) {
	object := func(text string) (o map[string]any) {
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	sent := object(`{"a": 1, "b": {"c": "x", "d": null, "e": {"f": {}}}, "l": [{"n": "1"}, {"n": "2", "new": true}], "off": false}`)
	if got := Dropped(sent, object(`{"a": 2, "b": {}, "l": [{"n": "1"}, {"n": "2"}], "more": 1}`)); strings.Join(got, " ") != "b.c l[1].new" {
		t.Errorf("got %q", got)
	}
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "default"} }
