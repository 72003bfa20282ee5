package server

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// A Job counts its pods by its UID: nobody makes a pod that names the Job of somebody else.
func TestControllersExist(t *testing.T) {
	ts := startServer(t)
	client := ts.client(t)
	mustMake(t, client.CoreV1().Namespaces(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
	theirs := mustMake(t, client.BatchV1().Jobs("other"), newJob("theirs"))
	mine := mustMake(t, client.BatchV1().Jobs("default"), newJob("mine"))
	ref := func(kind, name string, j *batchv1.Job, controller bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "batch/v1", Kind: kind, Name: name, UID: j.UID, Controller: ptr.To(controller)}
	}
	pods := client.CoreV1().Pods("default")
	pod := func(name string, refs ...metav1.OwnerReference) *corev1.Pod {
		p := newPod(name, "c")
		p.OwnerReferences = refs
		return p
	}
	for name, tc := range map[string]struct {
		ref metav1.OwnerReference
		ok  bool
	}{
		"mine":                    {ref("Job", "mine", mine, true), true},
		"theirs":                  {ref("Job", "theirs", theirs, true), false},
		"theirs under my name":    {ref("Job", "mine", theirs, true), false},
		"mine under another name": {ref("Job", "theirs", mine, true), false},
		"a CronJob":               {ref("CronJob", "mine", mine, true), false},
		"a JobSet": {
			metav1.OwnerReference{APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet", Name: "mine", UID: mine.UID, Controller: ptr.To(true)}, false,
		},
		"an owner":         {ref("Job", "theirs", theirs, false), true}, // which the collector looks for in this namespace
		"a kind of others": {metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Job", Name: "x", UID: "y", Controller: ptr.To(true)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pods.Create(t.Context(), pod(strings.ReplaceAll(strings.ToLower(name), " ", "-"), tc.ref), metav1.CreateOptions{})
			if tc.ok && err != nil || !tc.ok && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.ownerReferences[0]")) {
				t.Errorf("%v", err)
			}
		})
	}
	made := mustMake(t, pods, pod("p"))
	made.OwnerReferences = []metav1.OwnerReference{ref("Job", "theirs", theirs, true)}
	if _, err := pods.Update(t.Context(), made, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("an update: %v", err)
	}
}
