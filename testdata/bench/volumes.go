package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// claimSpec is that of a claim of 64 MiB with a class that is named after its type of volume.
func claimSpec(class string) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}},
	}
}

// volumes compares pods that mount a volume of some kind with pods that mount none, in turns.
func (b *bench) volumes(ctx context.Context) error {
	d, err := b.start(ctx, "--network", "none")
	if err != nil {
		return err
	}
	defer d.close()
	for _, kind := range []string{"directory", "loop"} {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: kind}, Provisioner: "jobd.dev/local", Parameters: map[string]string{"type": kind}}
		if _, err := d.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return err
		}
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: kind}, Spec: claimSpec(kind)}
		if _, err := d.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	ofClaim := func(name string) *corev1.VolumeSource {
		return &corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	}
	ofItsOwn := func(class string) *corev1.VolumeSource {
		return &corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claimSpec(class)}},
		}
	}
	b.report.table(fmt.Sprintf("Volumes: pods of `true`, Indexed Job of %d (median of %d rounds in turns, min-max)", b.pods, b.rounds),
		"parallel", "volume", "pods/s", "of none", "CPU ms a pod", "of the daemon")
	for _, parallel := range []int{1, 8} {
		kinds := []struct {
			name   string
			source *corev1.VolumeSource
		}{
			{"none", nil},
			{"emptyDir", &corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{"one claim, directory", ofClaim("directory")},
			{"one claim, loop", ofClaim("loop")},
			{"a claim each, directory", ofItsOwn("directory")},
			{"a claim each, loop", ofItsOwn("loop")},
		}
		speed, cpu, ofDaemon := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
		// The first round provisions the volumes of the claims, and does not count.
		for round := range b.rounds + 1 {
			for _, kind := range kinds {
				pods := b.pods
				if round == 0 {
					pods = parallel
				}
				j := job("true", pods, parallel, "true")
				if spec := &j.Spec.Template.Spec; kind.source != nil {
					spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: *kind.source}}
					spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
				}
				self, machine, own := d.self(), machineCPU(), ownCPU()
				took, err := d.run(ctx, j)
				if err != nil {
					return fmt.Errorf("%s: %w", kind.name, err)
				}
				if round > 0 {
					each := func(seconds float64) float64 { return seconds / float64(pods) * 1000 }
					speed[kind.name] = append(speed[kind.name], float64(pods)/took.Seconds())
					cpu[kind.name] = append(cpu[kind.name], each(machineCPU()-machine-(ownCPU()-own)))
					ofDaemon[kind.name] = append(ofDaemon[kind.name], each(d.self().CPU-self.CPU))
				}
				if _, err := d.remove(ctx, "true"); err != nil {
					return err
				}
				if err := d.withoutClaims(ctx, 2); err != nil {
					return err
				}
			}
		}
		for _, kind := range kinds {
			b.report.figure(fmt.Sprintf("Volumes/%s/parallel=%d", strings.ReplaceAll(kind.name, " ", "_"), parallel), speed[kind.name], "pods/s")
			// Rounds are compared one by one, since other work on the machine slows all kinds of a round down alike.
			ratios := make([]float64, b.rounds)
			for i := range ratios {
				ratios[i] = speed[kind.name][i] / speed["none"][i]
			}
			b.report.row(strconv.Itoa(parallel), kind.name, spread(speed[kind.name], "%.0f"), spread(ratios, "%.2f"),
				fmt.Sprintf("%.1f", median(cpu[kind.name])), fmt.Sprintf("%.1f", median(ofDaemon[kind.name])))
		}
	}
	return nil
}

// withoutClaims waits until there are no more than some claims and volumes: those of pods go after their pods.
func (d *daemon) withoutClaims(ctx context.Context, most int) error {
	for {
		claims, err := d.CoreV1().PersistentVolumeClaims("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		volumes, err := d.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
		if err != nil || len(claims.Items) <= most && len(volumes.Items) <= most {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
