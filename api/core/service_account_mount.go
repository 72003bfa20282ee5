package core

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/podspec"
)

const (
	// RootCAConfigMap is the ConfigMap of each namespace with the authority that signed the API's certificate.
	RootCAConfigMap = "kube-root-ca.crt"
	// RootCAKey is its key with the certificate of that authority.
	RootCAKey = "ca.crt"

	accountMountPath  = "/var/run/secrets/kubernetes.io/serviceaccount"
	accountVolume     = "kube-api-access-"
	accountTokenLife  = int64(60*60 + 7) // an hour, plus 7 seconds that mark it as the default and nobody's choice
	accountSuffixSize = 5
)

// UseServiceAccount adds to a new Pod what its ServiceAccount provides: the secrets that images are pulled with, and,
// unless either of them disables it, a volume with a token, mounted into each container where clients of the API look
// for it (PodSpec.AutomountServiceAccountToken).
func UseServiceAccount(spec *corev1.PodSpec, account *corev1.ServiceAccount) {
	if len(spec.ImagePullSecrets) == 0 {
		spec.ImagePullSecrets = slices.Clone(account.ImagePullSecrets)
	}
	wanted := ptr.Deref(account.AutomountServiceAccountToken, true)
	if ptr.Deref(spec.AutomountServiceAccountToken, wanted) {
		mountAccount(spec)
	}
}

// IsAccountVolume reports whether a volume is the one that UseServiceAccount adds.
func IsAccountVolume(v corev1.Volume) bool { return strings.HasPrefix(v.Name, accountVolume) }

func mountAccount(spec *corev1.PodSpec) {
	name := ""
	if i := slices.IndexFunc(spec.Volumes, IsAccountVolume); i >= 0 {
		name = spec.Volumes[i].Name // a manifest that was read from an API has it already
	}
	known := name != ""
	if !known {
		name = accountVolume + utilrand.String(accountSuffixSize)
	}
	mounted := false
	for c := range podspec.Containers(spec) {
		if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == accountMountPath }) {
			continue
		}
		c.VolumeMounts = append(c.VolumeMounts,
			corev1.VolumeMount{Name: name, ReadOnly: true, MountPath: accountMountPath})
		mounted = true
	}
	if !known && mounted {
		spec.Volumes = append(spec.Volumes,
			corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: accountFiles()}})
	}
}

// accountFiles returns the source of the files: the token, the authority and the namespace.
func accountFiles() *corev1.ProjectedVolumeSource {
	return &corev1.ProjectedVolumeSource{
		DefaultMode: ptr.To(corev1.ProjectedVolumeSourceDefaultMode),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
				Path: corev1.ServiceAccountTokenKey, ExpirationSeconds: ptr.To(accountTokenLife),
			}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: RootCAConfigMap},
				Items:                []corev1.KeyToPath{{Key: RootCAKey, Path: RootCAKey}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{
					APIVersion: "v1", FieldPath: "metadata.namespace",
				},
			}}}},
		},
	}
}
