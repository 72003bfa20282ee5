package diskuse

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	wire "github.com/jobd/jobd/api/diskuse"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/store"
)

// Everything below the root is told once, with whose it is.
func TestMeasure(t *testing.T) {
	root := t.TempDir()
	s, err := store.Open(filepath.Join(root, "jobd.db"), store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put := func(resource string, obj objects.Object) {
		t.Helper()
		value, err := scheme.Encode(obj)
		if err == nil {
			err = s.Update(t.Context(), func(tx *store.Tx) error {
				tx.Put(store.Object{Key: objects.Key(resource, obj), UID: string(obj.GetUID()), Value: value})
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	using := func(image string) corev1.PodSpec {
		return corev1.PodSpec{
			Containers: []corev1.Container{{Image: image}},
			Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}},
		}
	}
	pod := func(name, uid, job string, phase corev1.PodPhase) {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(uid)}, Spec: using("small:1"), Status: corev1.PodStatus{Phase: phase},
		}
		if job != "" {
			p.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: job, UID: types.UID(job + "-uid"), Controller: ptr.To(true),
			}}
		}
		put(objects.Pods, p)
	}
	file := func(size int, path ...string) {
		t.Helper()
		name := filepath.Join(append([]string{root}, path...)...)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(strings.Repeat("x", size)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pod("a", "ua", "train", corev1.PodRunning)
	pod("b", "ub", "", corev1.PodSucceeded)
	put(objects.Jobs, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "waits"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: using("other:1")}},
	})
	put(objects.Jobs, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "done"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: using("large:1")}},
		Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}},
	})
	put(objects.CronJobs, &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "nightly"},
		Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
			Template: corev1.PodTemplateSpec{Spec: using("large:1")},
		}}},
	})
	put(objects.Volumes, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "n", Name: "data"}},
	})
	file(100<<10, "logs", "n_a_ua", "c", "0.log")
	file(200<<10, "logs", "n_gone_ug", "c", "0.log")
	if err := os.WriteFile(filepath.Join(root, "logs", "n_gone_ug", "pod.json"), []byte(`{"namespace":"n","job":"old"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	file(300<<10, "pods", "ua", "volumes", "x")
	file(400<<10, "pods", "ub", "volumes", "x")
	file(500<<10, "volumes", "pv", "data", "x")
	file(600<<10, "containerd", "content", "x")
	file(100<<10, "audit", "a[1].log")
	file(100<<10, "audit", "a[1]-2026-11-28T20-00-00.000.log")
	file(100<<10, "audit", "a[1]-2026-11-27T20-00-00.000.log.gz")
	file(100<<10, "audit", "a1.log")
	file(100<<10, "audit", "a[1]-else.log")
	if err := s.Update(t.Context(), func(tx *store.Tx) error {
		for _, resource := range []string{objects.Events, objects.Notices, objects.NoticeMemories} {
			tx.Put(store.Object{Key: store.Key(resource, "n", "x"), Value: make([]byte, 1000)})
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	m := New(Options{
		Root: root, Store: s, AuditLog: filepath.Join(root, "audit", "a[1].log"), Bounds: Bounds{Claims: "their size"},
		Images: func(context.Context) ([]runtime.ImageUsage, error) {
			return []runtime.ImageUsage{
				{Names: []string{"docker.io/library/small:1"}, Size: 2, Shared: 1},
				{Names: []string{"docker.io/library/large:1", "docker.io/library/other:1"}, Size: 3, Shared: 1},
			}, nil
		},
	})
	r, err := m.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]wire.Use{}
	for _, use := range r.Uses {
		if _, twice := got[use.Kind]; twice {
			t.Errorf("%s is told twice", use.Kind)
		}
		got[use.Kind] = use
	}
	for kind, want := range map[string]wire.Owner{
		"logs": {Name: "jobs/n/train", Bytes: 100 << 10}, "kept logs": {Name: "jobs/n/old", Bytes: 200 << 10},
		"volumes of pods": {Name: "jobs/n/train", Bytes: 300 << 10}, "kept files": {Name: "pods/n/b", Bytes: 400 << 10},
		"claims": {Name: "persistentvolumeclaims/n/data", Bytes: 500 << 10}, "images": {Name: "docker.io/library/large:1, docker.io/library/other:1", Bytes: 3},
	} {
		use := got[kind]
		if len(use.Owners) == 0 || use.Owners[0].Name != want.Name || use.Owners[0].Bytes < want.Bytes || use.Count != len(use.Owners) {
			t.Errorf("%s: %+v", kind, use)
			continue
		}
		if kind != "images" && (use.Bytes < want.Bytes || use.Bytes > want.Bytes+64<<10) {
			t.Errorf("%s: %d bytes", kind, use.Bytes)
		}
	}
	for kind, most := range map[string]int64{"events": 1100, "notices": 2200, "audit log": 316 << 10} {
		if got := got[kind].Bytes; got < most*9/10 || got > most {
			t.Errorf("%s: %d bytes", kind, got)
		}
	}
	if got["images"].Bytes < 600<<10 || got["database"].Bytes == 0 || got["claims"].Bound != "their size" || r.Free == 0 || r.Size < r.Free {
		t.Errorf("%+v", r)
	}
	for what, is := range map[string]struct{ got, want any }{
		"who uses small":    {got["images"].Owners[1].UsedBy, []string{"jobs/n/train"}},
		"who uses large":    {got["images"].Owners[0].UsedBy, []string{"cronjobs/n/nightly", "jobs/n/waits"}},
		"what small shares": {got["images"].Owners[1].Shared, 1},
		"who has a claim":   {got["claims"].Owners[0].UsedBy, []string{"jobs/n/train"}},
		"how many Jobs":     {r.JobCount, 2},
		"of which one is":   {r.Jobs[0].Name, "n/train"},
	} {
		if fmt.Sprint(is.got) != fmt.Sprint(is.want) {
			t.Errorf("%s: %v, want %v", what, is.got, is.want)
		}
	}
	if j := r.Jobs[0]; j.Bytes < 400<<10 || j.Kinds["logs"] < 100<<10 || j.Kinds["volumes of pods"] < 300<<10 || len(j.Kinds) != 2 {
		t.Errorf("%+v", j)
	}
	if again, err := m.Measure(t.Context()); err != nil || again != r {
		t.Errorf("it was measured again at once: %v", err)
	}
}

// Nothing is measured for who has gone, neither while others are waited for nor in the middle.
func TestMeasureForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		s, err := store.Open(filepath.Join(root, "jobd.db"), store.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := os.MkdirAll(filepath.Join(root, "logs", "n_a_ua"), 0o755); err != nil {
			t.Fatal(err)
		}
		measuring, leave := context.WithCancel(t.Context())
		m := New(Options{Root: root, Store: s, Images: func(context.Context) ([]runtime.ImageUsage, error) {
			<-measuring.Done() // the client leaves meanwhile
			return nil, nil
		}})
		first := make(chan error, 1)
		go func() { _, err := m.Measure(measuring); first <- err }()
		synctest.Wait()
		waiting, leaveToo := context.WithTimeout(t.Context(), time.Second)
		defer leaveToo()
		if _, err := m.Measure(waiting); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one who waits, and leaves: %v", err)
		}
		leave()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("one who leaves: %v", err)
		}
		if r, err := m.Measure(t.Context()); err != nil || len(r.Uses) == 0 {
			t.Errorf("the next one: %v, %+v", err, r)
		}
	})
}

func TestOwnersAreBounded(t *testing.T) {
	of := tally{}
	for i := range 2 * wire.MaxOwners {
		of[strings.Repeat("x", i)] = int64(i)
	}
	if owners, n := of.owners(); len(owners) != wire.MaxOwners || n != 2*wire.MaxOwners || owners[0].Bytes != 2*wire.MaxOwners-1 {
		t.Errorf("%d of %d", len(owners), n)
	}
}
