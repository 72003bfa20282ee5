package joblogs

import (
	"io"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/runtime/logs"
)

// What a container has printed in a cluster is brought here, each line once, and read as if it had been printed here.
func TestLogsOfACluster(t *testing.T) {
	f := newFollowed(t)
	f.node, f.limit = "here", logs.Limit{MaxSize: 1 << 20, MaxFiles: 2}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p-uid"}}
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(f.job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	p.Spec = corev1.PodSpec{NodeName: "prod", Containers: f.job.Spec.Template.Spec.Containers}
	if _, err := f.Keep(p, "c", 0, clusters.LogEnd{}, nil); !apierrors.IsBadRequest(err) {
		t.Errorf("a pod of another node: %v", err)
	}
	p.Spec.SchedulerName = clusters.Scheduler("prod")
	if _, err := f.Keep(p, "c", 0, clusters.LogEnd{}, []byte("x\n")); !apierrors.IsNotFound(err) {
		t.Errorf("a pod that is gone: %v", err)
	}
	over := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", ContainerID: "x://y", State: over}}
	f.save(p)
	if _, err := f.Open(t.Context(), p, &corev1.PodLogOptions{Container: "c"}); err == nil || !strings.Contains(err.Error(), "was brought here yet") {
		t.Errorf("before it is brought: %v", err)
	}
	end, err := f.Keep(p, "c", 0, clusters.LogEnd{}, nil)
	if err != nil || end.Lines != 0 {
		t.Fatalf("%+v: %v", end, err)
	}
	first := end
	if end, err = f.Keep(p, "c", 0, end, []byte("2026-11-30T11:00:00.5Z a\n2026-11-30T11:00:01Z b\n2026-11-30T11:00:01Z c\n")); err != nil || end.Lines != 2 {
		t.Fatalf("%+v: %v", end, err)
	}
	if _, err := f.Keep(p, "c", 0, first, []byte("2026-11-30T11:00:00.5Z a\n")); !apierrors.IsConflict(err) {
		t.Errorf("lines that are there: %v", err)
	}
	if end, err = f.Keep(p, "c", 0, end, []byte("2026-11-30T11:00:02Z d\n")); err != nil || end.Lines != 1 {
		t.Fatalf("%+v: %v", end, err)
	}
	until := end.Time
	for _, piece := range []string{"", "e", "f\n"} { // of a line that is too long to be brought at once
		if piece == "" {
			piece = "2026-11-30T11:00:02Z "
		}
		if end, err = f.Keep(p, "c", 0, end, []byte(piece)); err != nil || !end.Time.Equal(until) || end.Lines != 2 {
			t.Fatalf("%q: %+v: %v", piece, end, err)
		}
	}
	r, err := f.Open(t.Context(), p, &corev1.PodLogOptions{Container: "c"})
	f.must(err)
	text, err := io.ReadAll(r)
	f.must(err)
	if string(text) != "a\nb\nc\nd\nef\n" {
		t.Errorf("the log is %q", text)
	}
	if node, err := f.Elsewhere(f.job); node != "" || err != nil {
		t.Errorf("elsewhere: %q, %v", node, err)
	}
	if _, err := f.Keep(p, "c", 9, clusters.LogEnd{}, []byte("x\n")); err != nil {
		t.Error(err)
	}
	if _, err := f.Keep(p, "c", 4, clusters.LogEnd{}, []byte("x\n")); !apierrors.IsBadRequest(err) {
		t.Errorf("an attempt that is not kept any more: %v", err)
	}
}
