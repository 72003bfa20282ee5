package answers

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/jobset"
	wire "github.com/jobd/jobd/api/picture"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// storeOf is a store with a JobSet of n Jobs, and one Job that has the same labels and is not the set's. put changes an object.
func storeOf(t testing.TB, n int) (s *store.Store, js *jobsetv1.JobSet, put func(resource string, all ...objects.Object)) {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "db"), store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	put = func(resource string, all ...objects.Object) {
		t.Helper()
		if err := s.Update(t.Context(), func(tx *store.Tx) error {
			for _, obj := range all {
				value, err := scheme.Encode(obj)
				if err != nil {
					return err
				}
				o := store.Object{Key: objects.Key(resource, obj), UID: string(obj.GetUID()), Value: value}
				for _, owner := range obj.GetOwnerReferences() {
					o.Owners = append(o.Owners, string(owner.UID))
				}
				tx.Put(o)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	js = &jobsetv1.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s", UID: "set"}}
	js.Spec.ReplicatedJobs = []jobsetv1.ReplicatedJob{{Name: "g", Replicas: int32(n)}}
	put(objects.JobSets, js)
	var jobs []objects.Object
	for i := range n {
		jobs = append(jobs, jobOf(i, js.UID))
	}
	stranger := jobOf(n, "other")
	stranger.OwnerReferences = append(stranger.OwnerReferences, metav1.OwnerReference{UID: js.UID})
	put(objects.Jobs, append(jobs, stranger)...)
	return s, js, put
}

func jobOf(index int, owner types.UID) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: jobset.JobName("s", "g", index)}}
	j.Labels = map[string]string{jobsetv1.ReplicatedJobNameKey: "g", jobset.RestartAttemptKey: "0"}
	j.OwnerReferences = []metav1.OwnerReference{{APIVersion: jobsetv1.GroupVersion.String(), Kind: "JobSet", Name: "s", UID: owner, Controller: ptr.To(true)}}
	return j
}

// What has changed is seen, and what has not is not read again.
func TestThePictureOfAJobSetFollowsIt(t *testing.T) {
	s, js, put := storeOf(t, 3)
	p := NewPictures(Sources{Store: s})
	look := func() string {
		t.Helper()
		if k := p.sketches.get(js.UID, func() *sketch { return &sketch{} }); k != nil {
			k.drawn = time.Time{} // it was long ago
		}
		text, err := p.SetPicture(js)
		if err != nil {
			t.Fatal(err)
		}
		var drawn wire.SetPicture
		if err := json.Unmarshal(text, &drawn); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(drawn.State, " ", drawn.Groups[0].Jobs)
	}
	if got := look(); got != "Waiting w3" {
		t.Errorf("at first it is %s", got)
	}
	j := jobOf(1, js.UID)
	j.Status.Ready = ptr.To[int32](1)
	put(objects.Jobs, j)
	if got := look(); got != "Running wrw" {
		t.Errorf("when one runs it is %s", got)
	}
	if err := s.Update(t.Context(), func(tx *store.Tx) error {
		tx.Delete(objects.Key(objects.Jobs, j))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := look(); got != "Waiting w-w" {
		t.Errorf("when one is gone it is %s", got)
	}
}

// BenchmarkSetPicture draws the largest JobSet that there can be, of which one Job has changed since.
func BenchmarkSetPicture(b *testing.B) {
	s, js, put := storeOf(b, 10_000)
	p := NewPictures(Sources{Store: s})
	k := p.sketches.get(js.UID, func() *sketch { return &sketch{} })
	for b.Loop() {
		b.StopTimer()
		put(objects.Jobs, jobOf(1, js.UID))
		k.drawn = time.Time{}
		b.StartTimer()
		if _, err := p.SetPicture(js); err != nil {
			b.Fatal(err)
		}
	}
}
