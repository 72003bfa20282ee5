package upkeep_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

func TestHoweverManyJobsExpireTheyGoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := controltest.New(t)
		defer w.End()
		w.Write(func(tx *store.Tx) error {
			for i := range 2*loop.Budget + 1 {
				j := &batchv1.Job{}
				j.Namespace, j.Name, j.UID = "default", fmt.Sprint("j", i), types.UID(fmt.Sprint("uid", i))
				j.Spec.TTLSecondsAfterFinished = ptr.To[int32](10)
				j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
				j.Status.CompletionTime = ptr.To(metav1.Now())
				value, err := scheme.Encode(j)
				if err != nil {
					return err
				}
				tx.Put(store.Object{Key: objects.Key(objects.Jobs, j), UID: string(j.UID), Value: value})
			}
			return nil
		})
		for _, c := range []struct {
			after time.Duration
			left  int
		}{{9 * time.Second, 2*loop.Budget + 1}, {time.Second, 0}} {
			time.Sleep(c.after)
			synctest.Wait()
			_ = w.Store.View(func(s *store.Snapshot) error {
				if n := s.Count(objects.Jobs + "/"); n != c.left {
					t.Errorf("%d Jobs are left, want %d", n, c.left)
				}
				return nil
			})
		}
	})
}
