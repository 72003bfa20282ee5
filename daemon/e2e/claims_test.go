package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// training is a Job that trains in ten epochs. After each it writes a checkpoint into a claim, from which the next pod goes
// on. The state after an epoch follows from the one before, so that an epoch that is lost or done twice shows in the end.
// Its pods fail twice.
const training = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: checkpoints}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 64Mi}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  backoffLimit: 4
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: train
        image: busybox:1.36
        command:
        - sh
        - -ec
        - |
          epoch=0; state=1
          [ ! -e /checkpoints/last ] || read epoch state < /checkpoints/last
          echo "goes on after epoch $epoch"
          while [ $epoch -lt 10 ]; do
            sleep 0.5
            epoch=$((epoch + 1)); state=$(((state * 31 + epoch) % 65521))
            echo "$epoch $state" > /checkpoints/next
            sync /checkpoints/next
            mv /checkpoints/next /checkpoints/last
            case $epoch in 3|6) exit 1 ;; esac
          done
          echo "trained to $state"
        volumeMounts: [{name: checkpoints, mountPath: /checkpoints}]
      volumes: [{name: checkpoints, persistentVolumeClaim: {claimName: checkpoints}}]
`

func TestTrainingSurvivesFailuresAndKills(t *testing.T) {
	t.Parallel()
	d := start(t, "--pod-backoff-base", "100ms", "--pod-backoff-cap", "200ms")
	d.apply(training)
	epoch := func(at int) {
		t.Helper()
		d.eventually(fmt.Sprintf("epoch %d", at), func() error {
			found, _ := filepath.Glob(filepath.Join(d.root, "volumes", "pvc-*", "data", "last"))
			if len(found) != 1 {
				return fmt.Errorf("checkpoints: %v", found)
			}
			content, err := os.ReadFile(found[0])
			if err != nil {
				return err
			}
			number, _, _ := strings.Cut(string(content), " ")
			if n, err := strconv.Atoi(number); err != nil || n < at {
				return fmt.Errorf("the checkpoint is %q", content)
			}
			return nil
		})
	}
	for _, at := range []int{1, 4, 7} {
		epoch(at)
		d.kill()
		d.serve()
	}
	d.complete("train")
	state := 1
	for e := 1; e <= 10; e++ {
		state = (state*31 + e) % 65521
	}
	logs := d.jobctl("logs", "jobs/train", "--all-restarts")
	if !strings.HasSuffix(logs, fmt.Sprintf("trained to %d\n", state)) || strings.Count(logs, "goes on") != 3 {
		t.Errorf("logs, want training to %d by three pods:\n%s", state, logs)
	}

	claims := d.CoreV1().PersistentVolumeClaims("default")
	d.jobctl("delete", "pvc/checkpoints", "--wait=false")
	if c, err := claims.Get(t.Context(), "checkpoints", metav1.GetOptions{}); err != nil || c.DeletionTimestamp == nil {
		t.Errorf("the claim goes before the pods that have used it: %v", err)
	}
	d.jobctl("delete", "job/train")
	d.eventually("the claim is gone, with its data", func() error {
		if _, err := claims.Get(t.Context(), "checkpoints", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the claim: %v", err)
		}
		if left := d.volumes(); len(left) > 0 {
			return fmt.Errorf("left are %v", left)
		}
		return nil
	})
}

// volumes lists what is in the directory of volumes.
func (d *daemon) volumes() []string {
	entries, err := os.ReadDir(filepath.Join(d.root, "volumes"))
	if err != nil {
		d.t.Error(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestWhatAPodSeesOfAClaim(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.apply(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteMany]
  resources: {requests: {storage: 16Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: write}
spec:
  restartPolicy: Never
  containers:
  - name: c
    image: busybox:1.36
    command: [sh, -ec, 'mkdir -p /data/sub/deep; echo here > /data/sub/deep/file; ln -s /etc/passwd /data/link; chmod 600 /data/sub/deep/file; ls /scratch']
    volumeMounts: [{name: data, mountPath: /data}, {name: scratch, mountPath: /scratch}]
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: data}}
  - name: scratch
    ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}}
`)
	p := d.podUntil("write", "has ended", ended)
	if p.Status.Phase != corev1.PodSucceeded {
		t.Fatalf("the first pod: %+v: %s", p.Status, d.jobctl("logs", "write"))
	}
	claims := d.CoreV1().PersistentVolumeClaims("default")
	scratch, err := claims.Get(t.Context(), "write-scratch", metav1.GetOptions{})
	if err != nil || !metav1.IsControlledBy(scratch, p) || scratch.Status.Phase != corev1.ClaimBound {
		t.Errorf("the pod's own claim: %+v, %v", scratch, err)
	}
	before := d.passwd()
	d.apply(`
apiVersion: v1
kind: Pod
metadata: {name: read}
spec:
  restartPolicy: Never
  securityContext: {runAsUser: 1000, runAsGroup: 1000, fsGroup: 2000}
  containers:
  - name: c
    image: busybox:1.36
    command: [sh, -c, 'cat /deep/file; echo more >> /deep/file && ls -n /deep/file | cut -c1-10; touch /ro/x 2>/dev/null || echo read-only; stat -c %g /data']
    volumeMounts: [{name: data, mountPath: /data}, {name: data, mountPath: /deep, subPath: sub/deep}, {name: ro, mountPath: /ro}]
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: data}}
  - {name: ro, persistentVolumeClaim: {claimName: data, readOnly: true}}
`)
	d.podUntil("read", "has ended", ended)
	if got := d.jobctl("logs", "read"); !strings.Contains(got, "here\n-rw-rw----\n") || !strings.Contains(got, "read-only\n2000\n") {
		t.Errorf("the second pod:\n%s", got)
	}
	if d.passwd() != before {
		t.Error("the group of a file of the host was changed by way of a symlink")
	}
	d.jobctl("delete", "pod/write")
	d.eventually("the pod's own claim goes with it", func() error {
		if _, err := claims.Get(t.Context(), "write-scratch", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		if left := d.volumes(); len(left) != 1 {
			return fmt.Errorf("on the disk are %v", left)
		}
		return nil
	})

	grow := fmt.Appendf(nil, `{"spec":{"resources":{"requests":{"storage":"32Mi"}}}}`)
	if _, err := claims.Patch(t.Context(), "data", types.MergePatchType, grow, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	d.eventually("the claim has grown", func() error {
		c, err := claims.Get(t.Context(), "data", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if size := c.Status.Capacity[corev1.ResourceStorage]; size.Cmp(resource.MustParse("32Mi")) != 0 {
			return fmt.Errorf("it has %s, conditions %+v", size.String(), c.Status.Conditions)
		}
		return nil
	})
	shrink := fmt.Appendf(nil, `{"spec":{"resources":{"requests":{"storage":"1Mi"}}}}`)
	if _, err := claims.Patch(t.Context(), "data", types.MergePatchType, shrink, metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("it shrinks: %v", err)
	}
}

func TestFilesOfAClaimWithoutAPod(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.apply(`
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: now}
provisioner: jobd.dev/local
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  storageClassName: now
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 16Mi}}
`)
	d.jobctl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/data", patiently)
	local := t.TempDir()
	if err := os.MkdirAll(local+"/in/deep", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(local+"/in/deep/file", []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	d.jobctl("cp", local+"/in", "pvc/data:/model")
	d.jobctl("cp", local+"/in/deep/file", "pvc/data:/model")
	found, _ := filepath.Glob(filepath.Join(d.root, "volumes", "pvc-*", "data"))
	if len(found) != 1 {
		t.Fatalf("volumes: %v", found)
	}
	// A claim of the default class, which waits for its first pod: input comes before that.
	d.apply(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: input}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 16Mi}}}
`)
	if out, err := d.try("jobctl", nil, "cp", "pvc/input:/", local+"/nothing"); err == nil || !strings.Contains(out, "not bound to a volume yet") {
		t.Errorf("from a claim without a volume: %v %s", err, out)
	}
	d.jobctl("cp", local+"/in", "pvc/input:/data")
	d.apply(jobManifest{
		name: "reads", pod: "volumes: [{name: v, persistentVolumeClaim: {claimName: input}}]", container: "volumeMounts: [{name: v, mountPath: /v}]",
	}.String())
	d.running("reads", 1)
	if out := d.jobctl("exec", "job/reads", "--", "cat", "/v/data/deep/file"); out != "content" {
		t.Errorf("the Job sees %q", out)
	}
	// What a pod could have left there.
	if err := os.Symlink("/etc", found[0]+"/model/etc"); err != nil {
		t.Fatal(err)
	}
	d.jobctl("cp", "pvc/data:/model", local+"/out")
	d.jobctl("cp", "pvc/data:model/deep/file", local)
	for _, path := range []string{"/out/deep/file", "/out/file", "/file"} {
		if content, err := os.ReadFile(local + path); string(content) != "content" {
			t.Errorf("%s: %q, %v", path, content, err)
		}
	}
	if _, err := os.Lstat(local + "/out/etc"); !os.IsNotExist(err) {
		t.Errorf("a symlink was copied: %v", err)
	}
	for _, args := range [][]string{
		{"pvc/data:/model/etc/passwd", local + "/passwd"}, {"pvc/data:/missing", local + "/missing"}, {"pvc/none:/", local + "/none"},
		{local + "/file", "pvc/data:/model/etc/jobd-e2e"},
	} {
		if out, err := d.try("jobctl", nil, append([]string{"cp"}, args...)...); err == nil {
			t.Errorf("cp %v: %s", args, out)
		}
	}
	if _, err := os.Stat("/etc/jobd-e2e"); err == nil {
		t.Error("a file was put on the host")
	}
	if out, err := d.try("jobctl", nil, "cp", "pvc/data:/missing", local+"/x"); err == nil || !strings.Contains(out, "missing") {
		t.Errorf("what is missing is not named: %s", out)
	}
}

// passwd says who /etc/passwd of the host belongs to, and its mode.
func (d *daemon) passwd() string {
	info, err := os.Stat("/etc/passwd")
	if err != nil {
		d.t.Fatal(err)
	}
	return fmt.Sprint(info.Mode(), info.Sys())
}

func TestCleanKeepsVolumes(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.apply(strings.ReplaceAll(training, "sleep 0.5", "true"))
	d.eventually("a checkpoint", func() error {
		if len(d.volumes()) == 0 {
			return fmt.Errorf("there is no volume")
		}
		return nil
	})
	d.terminate()
	if out, err := d.try("jobd", nil, "clean", "--root", d.root, "--state", d.state); err != nil {
		t.Fatalf("clean: %v\n%s", err, out)
	}
	if left := d.volumes(); len(left) != 1 || !strings.HasPrefix(left[0], "pvc-") {
		t.Errorf("after clean there are %v", slices.Sorted(slices.Values(left)))
	}
	if out, err := d.try("jobd", nil, "clean", "--purge", "--root", d.root, "--state", d.state); err == nil || !strings.Contains(string(out), "--yes") {
		t.Errorf("clean --purge without a terminal: %v\n%s", err, out)
	}
	if len(d.volumes()) != 1 {
		t.Error("it has removed the volumes all the same")
	}
	if out, err := d.try("jobd", nil, "clean", "--purge", "--yes", "--root", d.root, "--state", d.state); err != nil {
		t.Errorf("clean --purge --yes: %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(d.root, "volumes")); !os.IsNotExist(err) {
		t.Errorf("the volumes are still there: %v", err)
	}
}
