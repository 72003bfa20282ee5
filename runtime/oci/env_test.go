package oci

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestEnvironment(t *testing.T) {
	field := func(path string) corev1.EnvVar {
		return corev1.EnvVar{Name: "X", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	amount := func(what, divisor string) corev1.EnvVar {
		ref := &corev1.ResourceFieldSelector{Resource: what}
		if divisor != "" {
			ref.Divisor = resource.MustParse(divisor)
		}
		return corev1.EnvVar{Name: "X", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: ref}}
	}
	for _, c := range []struct {
		name  string
		image []string
		env   []corev1.EnvVar
		want  []string
	}{
		{"a path and the name of the host", nil, nil, []string{defaultPath, "HOSTNAME=work"}},
		{"the image's path", []string{"PATH=/bin"}, nil, []string{"PATH=/bin"}},
		{"the container's before the image's", []string{"X=image"}, []corev1.EnvVar{{Name: "X", Value: "own"}}, []string{"X=own"}},
		{
			"a value names what stands before it", nil,
			[]corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "X", Value: "$(A)2$(LATER)"}, {Name: "LATER", Value: "3"}},
			[]string{"X=12$(LATER)"},
		},
		{"the image's variables cannot be named", []string{"A=1"}, []corev1.EnvVar{{Name: "X", Value: "$(A)"}}, []string{"X=$(A)"}},
		{"the later of two wins", nil, []corev1.EnvVar{{Name: "X", Value: "1"}, {Name: "X", Value: "2"}}, []string{"X=2"}},
		{"HOSTNAME may be set", nil, []corev1.EnvVar{{Name: "HOSTNAME", Value: "x"}}, []string{"HOSTNAME=x"}},
		{"metadata.name", nil, []corev1.EnvVar{field("metadata.name")}, []string{"X=work"}},
		{"metadata.namespace", nil, []corev1.EnvVar{field("metadata.namespace")}, []string{"X=default"}},
		{"metadata.uid", nil, []corev1.EnvVar{field("metadata.uid")}, []string{"X=12-34"}},
		{"a label", nil, []corev1.EnvVar{field("metadata.labels['batch.kubernetes.io/job-completion-index']")}, []string{"X=7"}},
		{"an annotation that is not there is empty", nil, []corev1.EnvVar{field("metadata.annotations['a']")}, []string{"X="}},
		{"spec.nodeName", nil, []corev1.EnvVar{field("spec.nodeName")}, []string{"X=node"}},
		{"spec.serviceAccountName", nil, []corev1.EnvVar{field("spec.serviceAccountName")}, []string{"X=robot"}},
		{"status.hostIP", nil, []corev1.EnvVar{field("status.hostIP")}, []string{"X=10.0.0.1"}},
		{"status.hostIPs", nil, []corev1.EnvVar{field("status.hostIPs")}, []string{"X=10.0.0.1,fd00::1"}},
		{"status.podIP", nil, []corev1.EnvVar{field("status.podIP")}, []string{"X=10.1.0.1"}},
		{"status.podIPs", nil, []corev1.EnvVar{field("status.podIPs")}, []string{"X=10.1.0.1"}},
		{"a limit in whole CPUs is rounded up", nil, []corev1.EnvVar{amount("limits.cpu", "")}, []string{"X=2"}},
		{"a limit in thousandths", nil, []corev1.EnvVar{amount("limits.cpu", "1m")}, []string{"X=1500"}},
		{"a limit in mebibytes", nil, []corev1.EnvVar{amount("limits.memory", "1Mi")}, []string{"X=64"}},
		{"a request is the limit when it is not set", nil, []corev1.EnvVar{amount("requests.memory", "")}, []string{"X=67108864"}},
		{"a limit that is not set is the node's", nil, []corev1.EnvVar{amount("limits.ephemeral-storage", "1Gi")}, []string{"X=10"}},
		{"a limit of 0 is the node's", nil, []corev1.EnvVar{amount("limits.example.com/zero", "")}, []string{"X=3"}},
		{"a request of 0 is 0", nil, []corev1.EnvVar{amount("requests.example.com/zero", "")}, []string{"X=0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := specOf(t, func(in *Input) {
				in.Image.Env, in.Container.Env = c.image, c.env
				in.Pod.Labels = map[string]string{"batch.kubernetes.io/job-completion-index": "7"}
				in.Pod.Spec.ServiceAccountName = "robot"
				in.HostIPs, in.PodIPs = []string{"10.0.0.1", "fd00::1"}, []string{"10.1.0.1"}
				in.Allocatable = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("10Gi"), "example.com/zero": resource.MustParse("3")}
				in.Container.Resources.Limits = corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
					"example.com/zero": resource.MustParse("0"),
				}
			})
			for _, want := range c.want {
				name, _, _ := strings.Cut(want, "=")
				var got []string
				for _, have := range spec.Process.Env {
					if strings.HasPrefix(have, name+"=") {
						got = append(got, have)
					}
				}
				if !slices.Equal(got, []string{want}) {
					t.Errorf("got %q, want %q", got, want)
				}
			}
		})
	}
}

func TestEnvironmentErrors(t *testing.T) {
	key := func(optional *bool) corev1.EnvVar {
		return corev1.EnvVar{Name: "X", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "c"}, Key: "k", Optional: optional,
		}}}
	}
	set := func(v corev1.EnvVar) func(*Input) {
		return container(func(c *corev1.Container) { c.Env = []corev1.EnvVar{v} })
	}
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   string // "": no error
	}{
		{"a configMap that is not there", set(key(nil)), `configmap "c" not found`},
		{"an optional one is done without", set(key(ptr(true))), ""},
		{"a secret that is not there", container(func(c *corev1.Container) {
			c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}
		}), `secret "s" not found`},
		{
			"a field that is not served",
			set(corev1.EnvVar{Name: "X", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.foo"}}}),
			"unsupported fieldPath: spec.foo",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Spec(input(c.change))
			if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

type fakeObjects struct{ NoObjects }

func (fakeObjects) ConfigMap(_, name string) (*corev1.ConfigMap, error) {
	if name != "c" {
		return nil, NotFound("configmap", name)
	}
	return &corev1.ConfigMap{Data: map[string]string{"A": "1", "B": "$(A)"}}, nil
}

func (fakeObjects) Secret(_, name string) (*corev1.Secret, error) {
	if name != "s" {
		return nil, NotFound("secret", name)
	}
	return &corev1.Secret{Data: map[string][]byte{"B": []byte("2")}}, nil
}

func TestEnvironmentFromObjects(t *testing.T) {
	named := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	all := func(prefix, name string) corev1.EnvFromSource {
		return corev1.EnvFromSource{Prefix: prefix, ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named(name)}}
	}
	secret := corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named("s")}}
	key := func(name, key string, optional *bool) corev1.EnvVar {
		return corev1.EnvVar{
			Name:      "X",
			ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: named(name), Key: key, Optional: optional}},
		}
	}
	for _, c := range []struct {
		name string
		from []corev1.EnvFromSource
		env  []corev1.EnvVar
		want string // variables after PATH and HOSTNAME, or the error
	}{
		{"each key is a variable, and is not expanded", []corev1.EnvFromSource{all("", "c")}, nil, "A=1 B=$(A)"},
		{"with a prefix", []corev1.EnvFromSource{all("P_", "c")}, nil, "P_A=1 P_B=$(A)"},
		{"a later source wins", []corev1.EnvFromSource{all("", "c"), secret}, nil, "A=1 B=2"},
		{"the container's own wins, and may name what was there", []corev1.EnvFromSource{secret}, []corev1.EnvVar{{Name: "B", Value: "x$(B)"}}, "B=x2"},
		{
			"an optional one that is not there",
			[]corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named("x"), Optional: ptr(true)}}},
			nil, "",
		},
		{"one that is not there", []corev1.EnvFromSource{all("", "x")}, nil, `configmap "x" not found`},
		{"a key of a Secret", nil, []corev1.EnvVar{key("s", "B", nil)}, "X=2"},
		{"a key that is not there", nil, []corev1.EnvVar{key("s", "C", nil)}, `couldn't find key C in Secret default/s`},
		{"an optional one is done without", nil, []corev1.EnvVar{key("s", "C", ptr(true))}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec, err := Spec(input(func(in *Input) {
				in.Objects, in.Container.EnvFrom, in.Container.Env = fakeObjects{}, c.from, c.env
			}))
			if err != nil {
				if err.Error() != c.want {
					t.Errorf("got %v, want %s", err, c.want)
				}
				return
			}
			own := slices.DeleteFunc(spec.Process.Env, func(v string) bool {
				return strings.HasPrefix(v, "PATH=") || strings.HasPrefix(v, "HOSTNAME=")
			})
			if got := strings.Join(own, " "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A ConfigMap may have as many keys as fit its megabyte. Each variable looked for among all others took a minute.
func TestEnvironmentOfManyVariables(t *testing.T) {
	const keys = 45_000
	data, image := map[string]string{}, make([]string, keys)
	for i := range keys {
		data["K"+strconv.Itoa(i)] = "v"
		image[i] = "I" + strconv.Itoa(i) + "=v"
	}
	read := 0
	objects := countedObjects{&corev1.ConfigMap{Data: data}, &read}
	c := &corev1.Container{Name: "main", Command: []string{"true"}, EnvFrom: []corev1.EnvFromSource{{
		ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "big"}},
	}}}
	for i := range 1000 {
		c.Env = append(c.Env, corev1.EnvVar{Name: "E" + strconv.Itoa(i), ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "big"}, Key: "K" + strconv.Itoa(i),
			},
		}})
	}
	begin := time.Now()
	spec := specOf(t, func(in *Input) { in.Container, in.Objects, in.Image.Env = c, objects, image })
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it takes %v", took)
	}
	if got, want := len(spec.Process.Env), 2*keys+1000+2; got != want {
		t.Errorf("%d variables, want %d", got, want)
	}
	if read != 1 {
		t.Errorf("the object is read %d times", read)
	}
}

type countedObjects struct {
	object *corev1.ConfigMap
	read   *int
}

func (c countedObjects) ConfigMap(_, _ string) (*corev1.ConfigMap, error) {
	*c.read++
	return c.object, nil
}
func (c countedObjects) Secret(_, name string) (*corev1.Secret, error) {
	return nil, NotFound("secret", name)
}

func TestEnvironmentIsBounded(t *testing.T) {
	big := countedObjects{&corev1.ConfigMap{Data: map[string]string{"A": strings.Repeat("x", 1<<20)}}, new(int)}
	from := func(prefix string) corev1.EnvFromSource {
		return corev1.EnvFromSource{Prefix: prefix, ConfigMapRef: &corev1.ConfigMapEnvSource{}}
	}
	for name, change := range map[string]func(c *corev1.Container){
		"each variable names the one before it twice": func(c *corev1.Container) {
			c.Env = []corev1.EnvVar{{Name: "X0", Value: "x"}}
			for i := range 30 {
				last := "$(X" + strconv.Itoa(i) + ")"
				c.Env = append(c.Env, corev1.EnvVar{Name: "X" + strconv.Itoa(i+1), Value: last + last})
			}
		},
		"arguments that name a long variable": func(c *corev1.Container) {
			c.EnvFrom, c.Args = []corev1.EnvFromSource{from("")}, []string{strings.Repeat("$(A)", 100)}
		},
		"one object under many prefixes": func(c *corev1.Container) {
			for i := range 100 {
				c.EnvFrom = append(c.EnvFrom, from("P"+strconv.Itoa(i)))
			}
		},
		"one object again and again": func(c *corev1.Container) {
			for range 100 {
				c.EnvFrom = append(c.EnvFrom, from(""))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(container(change))
			in.Objects = big
			if _, err := Spec(in); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "variables and arguments take more than") {
				t.Errorf("got %v", err)
			}
		})
	}
}
