package vm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestPowerCutsOfTraining takes the power from the machine again and again while Jobs train and keep checkpoints in claims.
func TestPowerCutsOfTraining(t *testing.T) {
	m := bootAtLength(t)
	m.serve()
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	training := m.train()
	for range 4 {
		training.save(m, 2)
		<-m.disk.FailAfter(1 + random.IntN(30))
		m.cut(random)
		m = boot(t, m.disk)
		m.ready()
		m.sound()
	}
	training.finish(m)
	m.clean()
}

// The Jobs that train, which are named after the type of their claim's volume, are in a namespace of their own.
const trainingSpace = "training"

// epochScript trains until the file /notes/enough is there. An epoch is confirmed in the log once its checkpoint, and
// the name of it, have been flushed to the disk. The state after an epoch follows from the one before.
const epochScript = `
epoch=0; state=1
[ ! -e /claim/last ] || read epoch state < /claim/last
echo "begins after $epoch $state"
until [ -e /notes/enough ]; do
  epoch=$((epoch + 1)); state=$(((state * 31 + epoch) % 65521))
  echo "$epoch $state" > /claim/next
  sync /claim/next
  mv /claim/next /claim/last
  sync /claim
  echo "saved $epoch $state"
  sleep 0.2
done`

// stateAfter is the state that training has after some epochs.
func stateAfter(epochs int) int {
	state := 1
	for e := 1; e <= epochs; e++ {
		state = (state*31 + e) % 65521
	}
	return state
}

// training follows the Jobs that train.
type training struct {
	saved map[string]int     // by Job: the last epoch that was confirmed
	begun map[types.UID]bool // the pods that have begun after an epoch no older than that
}

// train creates a Job for each type of volume.
func (m *machine) train() *training {
	m.t.Helper()
	ctx := m.t.Context()
	if _, err := m.CoreV1().Namespaces().Create(
		ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: trainingSpace}}, metav1.CreateOptions{},
	); err != nil {
		m.t.Fatal(err)
	}
	jobs := &training{saved: map[string]int{}, begun: map[types.UID]bool{}}
	for _, kind := range []string{"directory", "loop"} {
		jobs.saved[kind] = 0
		if _, err := m.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: kind}, Provisioner: "jobd.dev/local", Parameters: map[string]string{"type": kind},
		}, metav1.CreateOptions{}); err != nil {
			m.t.Fatal(err)
		}
		if _, err := m.CoreV1().PersistentVolumeClaims(trainingSpace).Create(ctx, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: kind},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: &kind, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("16Mi")}},
			},
		}, metav1.CreateOptions{}); err != nil {
			m.t.Fatal(err)
		}
		j := ignoring(job(kind, 1, 1, epochScript))
		pod := &j.Spec.Template.Spec
		pod.Volumes[0].HostPath.Path = "/data/training"
		pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "claim", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: kind}}})
		pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "claim", MountPath: "/claim"})
		if _, err := m.BatchV1().Jobs(trainingSpace).Create(ctx, j, metav1.CreateOptions{}); err != nil {
			m.t.Fatal(err)
		}
	}
	return jobs
}

// save waits until each Job has confirmed some epochs more.
func (jobs *training) save(m *machine, epochs int) {
	m.t.Helper()
	for name, saved := range jobs.saved {
		// After a cut there is a pod that was lost, and soon the one that stands in for it.
		m.eventually(fmt.Sprintf("%s has saved %d epochs", name, saved+epochs), func() error {
			return jobs.read(m, name, corev1.PodRunning, saved+epochs)
		})
	}
}

// finish lets the Jobs complete, deletes them with their claims, and checks that nothing is left of these.
func (jobs *training) finish(m *machine) {
	m.t.Helper()
	m.sh("touch /data/training/enough")
	for name, saved := range jobs.saved {
		m.eventually(name+" is complete", func() error {
			j, err := m.BatchV1().Jobs(trainingSpace).Get(m.t.Context(), name, metav1.GetOptions{})
			if err == nil && (end(j) == nil || end(j).Type != batchv1.JobComplete) {
				err = fmt.Errorf("%+v", j.Status)
			}
			return err
		})
		if err := jobs.read(m, name, corev1.PodSucceeded, saved); err != nil {
			m.t.Error(err)
		}
		m.t.Logf("%s has trained for %d epochs", name, jobs.saved[name])
	}
	ctx := m.t.Context()
	if err := m.CoreV1().Namespaces().Delete(ctx, trainingSpace, metav1.DeleteOptions{}); err != nil {
		m.t.Fatal(err)
	}
	m.eventually("the claims are gone with their data", func() error {
		if _, err := m.CoreV1().Namespaces().Get(ctx, trainingSpace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the namespace: %v", err)
		}
		if left := m.sh("ls /var/lib/jobd/volumes; losetup -a"); left != "" {
			return errors.New(left)
		}
		return nil
	})
}

// read reads the log of a Job's one pod in a phase, notes the last epoch that it confirms, and returns an error unless that
// is far enough. A pod must begin after an epoch that was confirmed before, or a later one.
func (jobs *training) read(m *machine, name string, phase corev1.PodPhase, atLeast int) error {
	m.t.Helper()
	pods, err := m.CoreV1().Pods(trainingSpace).List(m.t.Context(), metav1.ListOptions{
		LabelSelector: batchv1.JobNameLabel + "=" + name, FieldSelector: "status.phase=" + string(phase)})
	if err != nil {
		return err
	}
	if len(pods.Items) != 1 {
		return fmt.Errorf("%s: %d pods are %s", name, len(pods.Items), phase)
	}
	pod := &pods.Items[0]
	log, err := m.CoreV1().Pods(trainingSpace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(m.t.Context())
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(log)) {
		var epoch, state int
		begins, _ := fmt.Sscanf(line, "begins after %d %d", &epoch, &state)
		if saved, _ := fmt.Sscanf(line, "saved %d %d", &epoch, &state); begins != 2 && saved != 2 {
			continue // "start"
		}
		if state != stateAfter(epoch) {
			m.t.Fatalf("%s: this is not the state of that epoch: %q", name, line)
		}
		if begins == 2 && !jobs.begun[pod.UID] {
			m.t.Logf("%s begins after epoch %d, and %d were confirmed", name, epoch, jobs.saved[name])
			if epoch < jobs.saved[name] {
				m.t.Fatalf("%s has lost what was confirmed to be on the disk", name)
			}
			jobs.begun[pod.UID] = true
		}
		jobs.saved[name] = max(jobs.saved[name], epoch)
	}
	if jobs.saved[name] < atLeast {
		return fmt.Errorf("%s has saved %d epochs", name, jobs.saved[name])
	}
	return nil
}
