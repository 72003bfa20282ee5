package worker

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime"
)

func TestPullSecretsOfALaunch(t *testing.T) {
	many := make([]string, 5000)
	for i := range many {
		many[i] = "missing-" + strconv.Itoa(i)
	}
	for name, c := range map[string]struct {
		missing []string
		err     error
		what    duty.What
		says    string
	}{
		"some are missing": {many[:2], nil, duty.Pulling, "missing-0, missing-1"},
		"very many are":    {many, nil, duty.Pulling, strings.Join(many[:20], ", ") + ", and 4980 more"},
		"too large":        {nil, errors.New("imagePullSecrets: too large"), duty.StartFailed, "imagePullSecrets: too large"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				h := newHost(t, func(h *host, config *Config) {
					h.pull["image"] = time.Second
					config.PullSecrets = func(*corev1.Pod) ([]corev1.Secret, []string, error) {
						calls++
						return nil, slices.Clone(c.missing), c.err
					}
				})
				defer h.close()
				obj := newPod(corev1.RestartPolicyNever, "a", "b", "c")
				obj.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "x"}}
				for i := range obj.Spec.Containers {
					obj.Spec.Containers[i].Image = "image"
				}
				h.workers.Do(obj, []duty.Action{launchOf("a", 0), launchOf("b", 0), launchOf("c", 0)})
				time.Sleep(time.Minute) // of the bubble
				synctest.Wait()
				if calls != 1 {
					t.Errorf("read %d times", calls)
				}
				h.mu.Lock()
				defer h.mu.Unlock()
				found := 0
				for _, o := range slices.Concat(h.batches...) {
					if o.What != c.what {
						continue
					}
					found++
					if o.Message != c.says || o.What == duty.StartFailed && o.Reason != duty.ErrImagePull {
						t.Errorf("reported %s: %s", o.Reason, o.Message)
					}
				}
				if found != 3 {
					t.Errorf("reported %d times", found)
				}
			})
		})
	}
}

// To compare each volume with each mount would take minutes.
// Images are pulled for the namespace of their pod, which has a share of its own.
func TestPullsAreForANamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenants := make(chan string, 1)
		h := newHost(t, func(h *host, config *Config) { config.Images = tenantImages{h, tenants} })
		defer h.close()
		obj := newPod(corev1.RestartPolicyNever, "a")
		h.workers.Do(obj, []duty.Action{launchOf("a", 0)})
		if got := <-tenants; got != obj.Namespace || got == "" {
			t.Errorf("it is pulled for %q", got)
		}
		synctest.Wait()
	})
}

type tenantImages struct {
	*host
	tenants chan string
}

func (i tenantImages) Ensure(
	ctx context.Context, ref string, policy corev1.PullPolicy, secrets *runtime.PullSecrets, progress func(string),
) (runtime.Image, error) {
	i.tenants <- runtime.Tenant(ctx)
	return i.host.Ensure(ctx, ref, policy, secrets, progress)
}

func TestManyImageVolumes(t *testing.T) {
	const many = 300_000
	p, c := &corev1.Pod{}, &corev1.Container{}
	for i := range many {
		source := corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "x"}}
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: strconv.Itoa(i), VolumeSource: source})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "other"})
	}
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "7"}, corev1.VolumeMount{Name: "7"})
	if got := imageVolumes(p, c); len(got) != 1 || got[0].volume != "7" {
		t.Errorf("got %d", len(got))
	}
}
