package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func newConfigMap(edit func(*corev1.ConfigMap)) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n", ResourceVersion: "1"}, Data: map[string]string{"k": "v"}}
	if edit != nil {
		edit(cm)
	}
	return cm
}

func TestConfigMaps(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*corev1.ConfigMap)
		want string
	}{
		{"one with a value", nil, "[]"},
		{
			"a key that is no file name", func(cm *corev1.ConfigMap) { cm.Data["a/b"] = "" },
			`data[a/b]: Invalid value: "a/b": a valid config key must consist of alphanumeric characters`,
		},
		{
			"a key in both", func(cm *corev1.ConfigMap) { cm.BinaryData = map[string][]byte{"k": nil} },
			`data[k]: Invalid value: "k": duplicate of key present in binaryData`,
		},
		{
			"more than a MiB", func(cm *corev1.ConfigMap) { cm.Data["k"] = strings.Repeat("x", corev1.MaxSecretSize+1) },
			"Too long: may not be more than 1048576 bytes",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := fmt.Sprint(validateConfigMap(newConfigMap(tc.edit))); !strings.Contains(got, tc.want) {
				t.Error(got)
			}
		})
	}
	if got := fmt.Sprint(configMapTable().Cells(newConfigMap(nil), time.Time{})); got != "[a 1 <unknown>]" {
		t.Error(got)
	}
}

func TestImmutableConfigMapStaysAsItIs(t *testing.T) {
	old := newConfigMap(func(cm *corev1.ConfigMap) { cm.Immutable = ptr.To(true) })
	for _, tc := range []struct {
		name string
		edit func(*corev1.ConfigMap)
		want string
	}{
		{"labels may change", func(cm *corev1.ConfigMap) { cm.Labels = map[string]string{"a": "b"} }, "[]"},
		{"its data not", func(cm *corev1.ConfigMap) { cm.Data["k"] = "w" }, "[data: Forbidden: field is immutable when `immutable` is set]"},
		{
			"its bytes not", func(cm *corev1.ConfigMap) { cm.BinaryData = map[string][]byte{"b": nil} },
			"[binaryData: Forbidden: field is immutable when `immutable` is set]",
		},
		{"nor may it become mutable", func(cm *corev1.ConfigMap) { cm.Immutable = nil }, "[immutable: Forbidden: field is immutable when `immutable` is set]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cm := old.DeepCopy()
			tc.edit(cm)
			if got := fmt.Sprint(validateConfigMapUpdate(cm, old)); got != tc.want {
				t.Error(got)
			}
		})
	}
}
