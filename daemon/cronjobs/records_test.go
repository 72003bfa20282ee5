package cronjobs

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/door"
	"github.com/jobd/jobd/daemon/events"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/metrics"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// others are the concerns beside that of CronJobs.
type others struct {
	cronJobs *CronJobs
	started  map[string]*batchv1.Job
	gone     []types.UID
}

func (o *others) Set(p *loop.Pass, key string, j *batchv1.Job) error {
	o.started[key] = j
	return o.cronJobs.JobChanged(p, key, j)
}
func (o *others) Delete(*loop.Pass, string, types.UID) error { return nil }
func (o *others) Deleting(string)                            {}
func (o *others) OwnerGone(_ *loop.Pass, uid types.UID)      { o.gone = append(o.gone, uid) }

// Nothing is known any longer of a CronJob that is gone, nor of its Jobs, once they are gone or somebody else's.
func TestRecordsOfACronJobThatIsGone(t *testing.T) {
	for name, last := range map[string]func(c *CronJobs, key string, j *batchv1.Job){
		"its Jobs go as well": func(c *CronJobs, key string, j *batchv1.Job) { c.JobGone(nil, key, j) },
		"its Jobs stay": func(c *CronJobs, key string, j *batchv1.Job) {
			j.OwnerReferences = nil
			_ = c.JobChanged(nil, key, j)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := store.Open(filepath.Join(t.TempDir(), "jobd.db"), store.Options{NoSync: true})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				beside := &others{started: map[string]*batchv1.Job{}}
				l := loop.New(loop.Config{
					Store: s, Inbox: loop.NewInbox(), Events: events.New("test"), EventTTL: time.Hour, Metrics: metrics.New(s),
					Logger: slog.New(slog.DiscardHandler),
					Controllers: func(timers *loop.Timers, _ *loop.Followers) []loop.Controller {
						beside.cronJobs = New(timers, beside, beside, door.New(nil, false, nil))
						return []loop.Controller{beside.cronJobs}
					},
				})
				if err := l.Rebuild(); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- l.Run(ctx) }()
				defer func() {
					cancel()
					if err := <-done; err != nil {
						t.Error(err)
					}
				}()
				cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "c"}}
				cj.CreationTimestamp = metav1.Now()
				cj.Spec.Schedule = "* * * * *"
				cj.Spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "busybox"}},
				}
				batch.CronJobKind().Default(cj)
				ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
				write(t, s, func(tx *store.Tx) error {
					for _, obj := range []objects.Object{ns, cj} {
						value, err := scheme.Encode(obj)
						if err != nil {
							return err
						}
						key := store.Key(objects.Namespaces, "", "default")
						if obj == objects.Object(cj) {
							key = objects.Key(objects.CronJobs, cj)
						}
						if _, err := storage.Put(tx, &store.Object{Key: key, UID: string(obj.GetUID()), Value: value}); err != nil {
							return err
						}
					}
					return nil
				})
				time.Sleep(2*time.Minute + time.Second)
				synctest.Wait()
				if len(beside.started) != 2 {
					t.Fatalf("%d Jobs have been started", len(beside.started))
				}
				c := beside.cronJobs
				if len(c.known) != 1 || c.Len() != 2 {
					t.Fatalf("%d CronJobs and %d Jobs are known", len(c.known), c.Len())
				}
				write(t, s, func(tx *store.Tx) error { tx.Delete(objects.Key(objects.CronJobs, cj)); return nil })
				if err := l.Ask(t.Context(), func() {
					for key, j := range beside.started {
						last(c, key, j)
					}
				}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if n := len(c.known) + c.Len(); n > 0 || len(beside.gone) != 1 {
					t.Errorf("%d records are left; the collector was told of %v", n, beside.gone)
				}
			})
		})
	}
}

func write(t *testing.T, s *store.Store, fn func(*store.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}
