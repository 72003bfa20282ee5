package volume

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// counted issues a new token each time it has to.
type counted struct {
	given int
	renew bool
}

func (c *counted) ForPod(_ *corev1.Pod, audience string, life time.Duration, current string) (string, error) {
	if current != "" && !c.renew {
		return current, nil
	}
	c.given++
	return fmt.Sprintf("%s %v %d", audience, life, c.given), nil
}

// An older jobd has accepted lives that overflow a Duration.
func TestTokenLifeHasBounds(t *testing.T) {
	for seconds, want := range map[int64]time.Duration{
		math.MaxInt64:      1 << 32 * time.Second,
		math.MaxInt64 / 10: 1 << 32 * time.Second,
		1<<32 + 1:          1 << 32 * time.Second,
		1 << 32:            1 << 32 * time.Second,
		3600:               time.Hour,
		0:                  10 * time.Minute,
		math.MinInt64:      10 * time.Minute,
	} {
		spec := corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: &seconds}}},
		}}}}}
		if got := TokenLife(&spec); got != want {
			t.Errorf("%d s live %v, want %v", seconds, got, want)
		}
	}
}

func TestTokenVolume(t *testing.T) {
	for _, c := range []struct {
		name, spec string
		owner      string // user:group mode
	}{
		{"everybody may read it when nobody says who does", `containers: [{name: a}]`, "0:0 -rw-r--r--"},
		{"the one user of the pod alone", `{securityContext: {runAsUser: 1000}, containers: [{name: a}], initContainers: [{name: i}]}`, "1000:0 -rw-------"},
		{
			"a container's user comes before the pod's",
			`{securityContext: {runAsUser: 1000}, containers: [{name: a, securityContext: {runAsUser: 7}}]}`, "7:0 -rw-------",
		},
		{
			"several users share it",
			`{securityContext: {runAsUser: 1000}, containers: [{name: a}, {name: b, securityContext: {runAsUser: 7}}]}`,
			"0:0 -rw-r--r--",
		},
		{"the pod's group reads it", `{securityContext: {fsGroup: 2000}, containers: [{name: a}]}`, "0:2000 -rw-r-----"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := newVolumes(t)
			tokens := &counted{}
			v.node.Tokens = tokens
			pod := podWith(corev1.VolumeSource{}, corev1.VolumeMount{})
			pod.Spec = corev1.PodSpec{}
			if err := yaml.UnmarshalStrict([]byte(c.spec), &pod.Spec); err != nil {
				t.Fatal(err)
			}
			if err := yaml.UnmarshalStrict(
				[]byte(`[{name: t, projected: {sources: [{serviceAccountToken: {path: x/token, audience: vault, expirationSeconds: 600}}]}}]`),
				&pod.Spec.Volumes,
			); err != nil {
				t.Fatal(err)
			}
			if _, err := v.SetUp(t.Context(), pod, ""); err != nil {
				t.Fatal(err)
			}
			dir, inMemory := v.filesDir(pod, &pod.Spec.Volumes[0])
			read := func() string {
				t.Helper()
				data, err := os.ReadFile(filepath.Join(dir, "x", "token"))
				if err != nil {
					t.Fatal(err)
				}
				return string(data)
			}
			info, err := os.Stat(filepath.Join(dir, "x", "token"))
			if err != nil {
				t.Fatal(err)
			}
			stat := info.Sys().(*syscall.Stat_t)
			if got := fmt.Sprintf("%d:%d %v", stat.Uid, stat.Gid, info.Mode()); got != c.owner || !inMemory {
				t.Errorf("%s, want %s; in memory: %v", got, c.owner, inMemory)
			}
			if got := read(); got != "vault 10m0s 1" {
				t.Errorf("got %q", got)
			}
			if _, err := v.SetUp(t.Context(), pod, ""); err != nil || v.Refresh(pod) != nil || read() != "vault 10m0s 1" {
				t.Errorf("it changes too early: %q, %v", read(), err)
			}
			tokens.renew = true
			if err := v.Refresh(pod); err != nil || read() != "vault 10m0s 2" {
				t.Errorf("it is not renewed: %q, %v", read(), err)
			}
			if life := TokenLife(&pod.Spec); life != 10*time.Minute {
				t.Errorf("it lives %v", life)
			}
		})
	}
	v := newVolumes(t)
	pod := podWith(corev1.VolumeSource{}, corev1.VolumeMount{})
	pod.Spec = corev1.PodSpec{}
	if err := yaml.UnmarshalStrict([]byte(`[{name: t, projected: {sources: [{serviceAccountToken: {path: token}}]}}]`), &pod.Spec.Volumes); err != nil {
		t.Fatal(err)
	}
	if _, err := v.SetUp(t.Context(), pod, ""); err == nil || !strings.Contains(err.Error(), "there are no tokens here") {
		t.Errorf("without tokens: %v", err)
	}
}
