package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const diary = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: diary}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 16Mi}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: NAME}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: c, image: busybox:1.36, command: [sh, -c, "echo NAME >>/d/diary; cat /d/diary"], volumeMounts: [{name: d, mountPath: /d}]}
      volumes: [{name: d, persistentVolumeClaim: {claimName: diary}}]
`

// TestBackupAndRestore follows docs/install.md: the database and the data of claims are copied while the daemon runs, and put back once
// more has happened. What ran at the moment of the copy is run again, and what came after is gone.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	d := start(t)
	writes := func(name string) { d.apply(strings.ReplaceAll(diary, "NAME", name)); d.complete(name) }
	tar := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("tar", append([]string{"--xattrs", "--acls", "--numeric-owner", "-C", d.root}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("tar: %v: %s", err, out)
		}
	}
	db := func(args ...string) {
		t.Helper()
		if out, err := d.try("jobd", nil, append([]string{"db", "--root", d.root, "--state", d.state}, args...)...); err != nil {
			t.Fatalf("db: %v: %s", err, out)
		}
	}
	writes("monday")
	d.apply(sleeper("running", 1, 5, ""))
	d.running("running", 1)

	copied := t.TempDir()
	db("backup", filepath.Join(copied, "jobd.db"))
	tar("--sparse", "-cf", filepath.Join(copied, "volumes.tar"), "volumes")
	d.complete("running")
	writes("tuesday")

	d.kill()
	if out, err := d.try("jobd", nil, "clean", "--root", d.root, "--state", d.state); err != nil {
		t.Fatalf("clean: %v: %s", err, out)
	}
	for _, command := range [][]string{
		{"cp", filepath.Join(copied, "jobd.db"), filepath.Join(d.root, "jobd.db")}, {"rm", "-rf", filepath.Join(d.root, "volumes")},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", command, err, out)
		}
	}
	tar("-xf", filepath.Join(copied, "volumes.tar"))
	d.serve()
	d.complete("running")
	d.complete("monday")
	if _, err := d.BatchV1().Jobs("default").Get(t.Context(), "tuesday", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a Job that is newer than the copy: %v", err)
	}
	writes("wednesday")
	if logs := d.jobctl("logs", "jobs/wednesday"); logs != "monday\nwednesday\n" {
		t.Errorf("the claim has %q", logs)
	}
	db("check")
}
