package core

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestUseServiceAccount(t *testing.T) {
	const mount = "[{name: t, mountPath: /var/run/secrets/kubernetes.io/serviceaccount}]"
	for _, c := range []struct {
		name, spec, account string
		mounted             string // containers
		volumes, secrets    int
	}{
		{"each container gets the token", `{initContainers: [{name: i}], containers: [{name: a}, {name: b}]}`, `{}`, "i a b", 1, 0},
		{"not if the pod does not want it", `{automountServiceAccountToken: false, containers: [{name: a}]}`, `{automountServiceAccountToken: true}`, "", 0, 0},
		{"not if the account does not", `{containers: [{name: a}]}`, `{automountServiceAccountToken: false}`, "", 0, 0},
		{"the pod decides", `{automountServiceAccountToken: true, containers: [{name: a}]}`, `{automountServiceAccountToken: false}`, "a", 1, 0},
		{"what has something there keeps it", `{volumes: [{name: t}], containers: [{name: a, volumeMounts: ` + mount + `}, {name: b}]}`, `{}`, "b", 2, 0},
		{"nothing is added for nobody", `{volumes: [{name: t}], containers: [{name: a, volumeMounts: ` + mount + `}]}`, `{}`, "", 1, 0},
		{"a volume that is there already is used", `{volumes: [{name: kube-api-access-abcde}], containers: [{name: a}]}`, `{}`, "a", 1, 0},
		{
			"the account's pull secrets", `{containers: [{name: a}]}`,
			`{automountServiceAccountToken: false, imagePullSecrets: [{name: x}, {name: y}]}`, "", 0, 2,
		},
		{
			"the pod's own come first", `{imagePullSecrets: [{name: z}], containers: [{name: a}]}`,
			`{automountServiceAccountToken: false, imagePullSecrets: [{name: x}, {name: y}]}`, "", 0, 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec, account := &corev1.PodSpec{}, &corev1.ServiceAccount{}
			if err := yaml.UnmarshalStrict([]byte(c.spec), spec); err != nil {
				t.Fatal(err)
			}
			if err := yaml.UnmarshalStrict([]byte(c.account), account); err != nil {
				t.Fatal(err)
			}
			UseServiceAccount(spec, account)
			var mounted []string
			for _, c := range append(spec.InitContainers, spec.Containers...) {
				for _, m := range c.VolumeMounts {
					if strings.HasPrefix(m.Name, accountVolume) && m.ReadOnly {
						mounted = append(mounted, c.Name)
					}
				}
			}
			if got := strings.Join(mounted, " "); got != c.mounted || len(spec.Volumes) != c.volumes || len(spec.ImagePullSecrets) != c.secrets {
				t.Errorf("mounted in %q, %d volumes, %d secrets", got, len(spec.Volumes), len(spec.ImagePullSecrets))
			}
		})
	}
}

func TestRoleAnnotation(t *testing.T) {
	for role, good := range map[string]bool{"read": true, "submit": true, "admin": true, "root": false, "": false} {
		sa := &corev1.ServiceAccount{}
		sa.Namespace, sa.Name, sa.Annotations = "ns", "a", map[string]string{RoleAnnotation: role}
		if errs := validateServiceAccount(sa); (len(errs) == 0) != good {
			t.Errorf("%q: %v", role, errs)
		}
	}
}
