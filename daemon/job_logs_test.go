package daemon

import (
	"bufio"
	"fmt"
	"os"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/runtime/logs"
	"github.com/jobd/jobd/store"
	"github.com/jobd/jobd/testdata/inotify"
)

// Who follows a Job of 300 pods sees all that each of them prints, while the whole machine may have no more than 128
// instances of inotify.
func TestFollowAJobOfManyPods(t *testing.T) {
	const n = 300
	a := newArchive(t)
	a.watcher = &logs.Watcher{}
	close(a.loaded)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "j", UID: "uid-j"}}
	job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c"}}
	put := func(tx *store.Tx, key string, obj object) {
		value, err := scheme.Encode(obj)
		a.must(err)
		o := store.Object{Key: key, UID: string(obj.GetUID()), Value: value}
		for _, owner := range obj.GetOwnerReferences() {
			o.Owners = append(o.Owners, string(owner.UID))
		}
		tx.Put(o)
	}
	all := make([]*corev1.Pod, n)
	for i := range all {
		p := a.wrote("j", fmt.Sprint("p", i), 0)
		p.Spec.Containers = job.Spec.Template.Spec.Containers
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "c", ContainerID: "containerd://" + p.Name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}
		all[i] = p
	}
	save := func() {
		a.must(a.store.Update(t.Context(), func(tx *store.Tx) error {
			put(tx, keyOf(jobs, job), job)
			for _, p := range all {
				put(tx, keyOf(pods, p), p)
			}
			return nil
		}))
	}
	write := func(line string) {
		for _, p := range all {
			f, err := os.OpenFile(a.Path(p, "c", 0), os.O_APPEND|os.O_WRONLY, 0)
			a.must(err)
			_, err = fmt.Fprintf(f, "%s stdout F %s of %s\n", time.Now().UTC().Format(time.RFC3339Nano), line, p.Name)
			a.must(err)
			a.must(f.Close())
		}
	}
	save()
	write("one")
	before := inotify.Instances(t)
	stream, err := a.OpenJob(t.Context(), job, &batch.JobLogOptions{Follow: true})
	a.must(err)
	defer stream.Close()
	out := bufio.NewScanner(stream)
	see := func(line string) {
		t.Helper()
		left := map[string]bool{}
		for _, p := range all {
			left[line+" of "+p.Name] = true
		}
		for range n {
			if !out.Scan() || !left[out.Text()] {
				t.Fatalf("%q, %v, and %d are to come", out.Text(), out.Err(), len(left))
			}
			delete(left, out.Text())
		}
	}
	see("one")
	if took := inotify.Instances(t) - before; took > 1 {
		t.Errorf("it takes %d instances of inotify", took)
	}
	write("two")
	see("two")
	write("three") // and they end before anybody has looked
	for _, p := range all {
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	}
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	save()
	see("three")
	if out.Scan() || out.Err() != nil {
		t.Errorf("after all: %q, %v", out.Text(), out.Err())
	}
}
