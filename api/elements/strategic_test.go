package elements

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestComparisonsOfAPatch(t *testing.T) {
	pod := &corev1.Pod{}
	for i := range 30 {
		pod.Finalizers = append(pod.Finalizers, fmt.Sprint("f", i))
	}
	for i := range 3 {
		c := corev1.Container{Name: fmt.Sprint("c", i), Args: make([]string, 100)}
		for j := range 100 * i {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("V", j)})
			c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: int32(j)})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	env := func(container, patch string) string {
		return `{"spec": {"containers": [{"name": "` + container + `", ` + patch + `}]}}`
	}
	policy := &networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{Egress: make([]networkingv1.NetworkPolicyEgressRule, 100)}}
	for _, c := range []struct {
		patch string
		obj   runtime.Object
		want  int
	}{
		{`{"metadata": {"labels": {"a": "b"}}}`, pod, 0},
		{`{"metadata": {"finalizers": []}}`, pod, 30 * 30},
		{env("c2", `"env": []}, {"name": "c2", "$setElementOrder/env": []`), pod, 3*3 + 2*200*200},
		{`{"metadata": {"finalizers": ["a", "f0", "b"]}}`, pod, 32 * 32},
		{`{"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}`, pod, 31 * 31},
		{`{"metadata": {"\u0066inalizers": ["a"]}}`, pod, 31 * 31},
		{env("c2", `"env": [{"name": "V7"}], "$setElementOrder/env": [{"name": "V7"}, {"name": "b"}]`), pod, 3*3 + 200*200 + 201*201},
		{env("c1", `"env": [{"name": "V7"}, {"name": "V100"}]`), pod, 3*3 + 101*101},
		{env("new", `"env": [{"name": "V7"}, {"name": "V100"}]`), pod, 4*4 + 2*2},
		{env("c1", `"env": [{"name": "V7"}, {"value": "x"}, {"name": ["V8"]}, 5]`), pod, 3*3 + 103*103},
		{env("c1", `"ports": [{"containerPort": 7}, {"containerPort": 100}]`), pod, 3*3 + 101*101},
		{env("c2", `"args": ["a", "b"]`), pod, 3 * 3},
		{`{"spec": {"tolerations": [{}, {}]}}`, pod, 0},
		{`{"spec": {"egress": [{"to": [{}, {}]}]}}`, policy, 0},
		{`{"spec": {"securityContext": {"sysctls": [{"name": "a"}]}, "nodeName": [1], "containers": {"a": [1]}}}`, pod, 0},
		{`[`, pod, 0}, {`[1, 2]`, pod, 0},
	} {
		t.Run(fmt.Sprintf("%.60s", c.patch), func(t *testing.T) {
			p := StrategicPatchOf([]byte(c.patch))
			if n := p.Comparisons(c.obj, 30*30, 1<<30); n > max(c.want, 30*30) || n < c.want {
				t.Errorf("%d, not %d", n, c.want)
			}
			if n := p.Comparisons(c.obj, 0, c.want-1); c.want > 0 && n < c.want {
				t.Errorf("%d, of %d", n, c.want)
			}
		})
	}
}

func FuzzStrategicPatch(f *testing.F) {
	pod := &corev1.Pod{}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "a"}}, Ports: []corev1.ContainerPort{{ContainerPort: 1}}}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "v"}}
	for _, s := range []string{
		`{"spec":{"containers":[{"name":"c","env":[{"name":"a"}],"$setElementOrder/env":[{"name":"a"}]}]}}`,
		`{"spec":{"volumes":[{"name":[0]},{"$patch":"replace"}],"securityContext":{"sysctls":[null]}}}`,
		`{"metadata":{"ownerReferences":[{"uid":"a"}],"managedFields":[{"fieldsV1":{"f:a":[{}]}}]}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var patch map[string]any
		if json.Unmarshal(b, &patch) != nil {
			return
		}
		c := comparisons{most: math.MaxInt}
		c.object(patch, reflect.ValueOf(pod))
		if most := StrategicPatchOf(b).atMost(pod); c.n > most {
			t.Errorf("%d, and at most %d", c.n, most)
		}
	})
}
