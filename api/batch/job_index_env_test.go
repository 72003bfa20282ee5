package batch

import (
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// variable is one that is a key of a ConfigMap.
func variable(name, configMap, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: configMap}, Key: key,
	}}}
}

func sweep(env ...corev1.EnvVar) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "j", Annotations: map[string]string{IndexEnvAnnotation: "values"}},
		Spec: batchv1.JobSpec{
			Completions: ptr.To[int32](2), CompletionMode: ptr.To(batchv1.IndexedCompletion),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Env: env}}}},
		},
	}
}

func TestIndexEnvIsValidated(t *testing.T) {
	optional := variable("LR", "values", "lr")
	optional.ValueFrom.ConfigMapKeyRef.Optional = ptr.To(true)
	for _, c := range []struct {
		name string
		job  func() *batchv1.Job
		want string
	}{
		{"as it should be", func() *batchv1.Job { return sweep(variable("LR", "values", "lr")) }, ""},
		{"without the annotation", func() *batchv1.Job { j := sweep(); j.Annotations = nil; return j }, ""},
		{"empty", func() *batchv1.Job { j := sweep(); j.Annotations[IndexEnvAnnotation] = ""; return j }, "must be the name of a ConfigMap"},
		{"no name of an object", func() *batchv1.Job { j := sweep(); j.Annotations[IndexEnvAnnotation] = "../x"; return j }, "must be the name of a ConfigMap"},
		{"NonIndexed", func() *batchv1.Job {
			j := sweep(variable("LR", "values", "lr"))
			j.Spec.CompletionMode = nil
			return j
		}, "needs spec.completionMode: Indexed"},
		{"nothing uses it", func() *batchv1.Job { return sweep(variable("LR", "others", "lr")) }, "no container of spec.template uses the ConfigMap"},
		{"optional", func() *batchv1.Job { return sweep(optional) }, "env LR of container c must not be optional"},
	} {
		j := c.job()
		err := validateIndexEnv(j.Annotations, &j.Spec, field.NewPath("metadata", "annotations")).ToAggregate()
		if (err == nil) != (c.want == "") || err != nil &&
			(!strings.HasPrefix(err.Error(), "metadata.annotations[jobd.dev/index-env]") || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if errs := validateIndexEnvUpdate(sweep(), &batchv1.Job{}, field.NewPath("metadata", "annotations")); len(errs) != 1 {
		t.Errorf("the annotation can be added to a Job that runs: %v", errs)
	}
}

func TestIndexValues(t *testing.T) {
	env, ok := IndexEnvOf(sweep(variable("LR", "values", "lr"), variable("B", "values", "bs"), variable("X", "others", "x"), variable("LR2", "values", "lr")))
	if !ok || !slices.Equal(env.Keys, []string{"lr", "bs"}) {
		t.Fatalf("%v %v", env, ok)
	}
	v := &IndexValues{IndexEnv: env, Data: map[string]string{"0.lr": "0.1", "0.bs": "32", "1.lr": "two words", "10.lr": "1"}}
	for index, want := range map[int]string{0: "lr=0.1,bs=32", 1: `lr="two words"`, 2: "", 10: "lr=1"} {
		if got := v.Words(index); got != want {
			t.Errorf("index %d: %q, want %q", index, got, want)
		}
	}
	if got := v.Missing(1); got != "" {
		t.Errorf("index 0 lacks %q", got)
	}
	if got := v.Missing(2); got != "1.bs" {
		t.Errorf("missing is %q", got)
	}
	if none := (*IndexValues)(nil); none.Words(0) != "" {
		t.Error("a Job without values has some")
	}
}

func TestWordsOfValuesAreOneLineAndNotLong(t *testing.T) {
	long := []IndexValue{{"a", strings.Repeat("x", 1000)}, {"b", "\x1b[31m)\n"}, {"c", strings.Repeat("ü", 500)}, {"d", strings.Repeat("y", 59)}, {"e", "1"}}
	got := IndexWords(long)
	if len(got) > maxValuesWords+maxValueWords || strings.ContainsAny(got, "\x1b\n") || !strings.HasSuffix(got, ",+2") ||
		!strings.Contains(got, `,b="\x1b[31m)\n",`) || !strings.HasPrefix(got, "a="+strings.Repeat("x", 60)+"…,") {
		t.Errorf("%q", got)
	}
}
