package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	wire "github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// transaction is a Writer over one of the store.
type transaction struct{ *store.Tx }

func (t transaction) PutStored(o store.Object) { t.Put(o) }
func (t transaction) Delete(key string)        { t.Tx.Delete(key) }

type rig struct {
	t     testing.TB
	store *store.Store
	log   *Log
}

func newRig(t testing.TB, limits Limits) *rig {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "db"), store.Options{NoSync: true})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	r := &rig{t: t, store: s}
	r.open(limits)
	return r
}

func (r *rig) open(limits Limits) {
	r.t.Helper()
	must(r.t, r.store.View(func(s *store.Snapshot) (err error) {
		r.log, err = Open(s, limits)
		return err
	}))
}

func (r *rig) append(jobs ...wire.Job) {
	r.t.Helper()
	must(r.t, r.store.Update(context.Background(), func(tx *store.Tx) error {
		return r.log.Append(transaction{tx}, tx.Version(), jobs)
	}))
}

// namespace makes a namespace.
func (r *rig) namespace(name string, uid types.UID, created time.Time) {
	r.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid, CreationTimestamp: metav1.NewTime(created)}}
	value, err := scheme.Encode(ns)
	must(r.t, err)
	must(r.t, r.store.Update(context.Background(), func(tx *store.Tx) error {
		tx.Put(store.Object{Key: store.Key(objects.Namespaces, "", name), UID: string(uid), Value: value})
		return nil
	}))
}

// read returns what all pages of a query have.
func (r *rig) read(q wire.Query) (all []wire.Job, pages int) {
	r.t.Helper()
	must(r.t, r.store.View(func(s *store.Snapshot) error {
		for {
			page, next, err := Read(s, q)
			if err != nil {
				return err
			}
			all = append(all, page...)
			pages++
			if q.Continue = next; next == "" {
				return nil
			}
		}
	}))
	return all, pages
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func random(r *rand.Rand, i int) wire.Job {
	j := wire.Job{
		Namespace: fmt.Sprint("ns", r.IntN(3)), Name: fmt.Sprintf("job-%d", r.IntN(200)), UID: fmt.Sprintf("%032x", r.Uint64()),
		User: fmt.Sprint("user", r.IntN(4)), Created: metav1.NewTime(begin.Add(time.Duration(i) * time.Second)),
		Ended: metav1.NewTime(begin.Add(time.Duration(i+5) * time.Second)), Result: wire.Complete, Succeeded: 1,
		Use:    wire.Use{CPUSeconds: float64(r.IntN(100000)) / 1000, PeakMemory: int64(r.IntN(1 << 30))},
		Labels: map[string]string{"app": fmt.Sprint("app", r.IntN(5)), "rare": fmt.Sprint(r.IntN(1000))},
		Pods:   []wire.Pod{{Name: "p", Result: wire.PodSucceeded, Ended: metav1.NewTime(begin)}},
	}
	if r.IntN(3) == 0 {
		j.CronJob = fmt.Sprint("cron", r.IntN(3))
	}
	return j
}

// Whatever is asked, the pages have what a plain list of all Jobs has, also while blocks are made between them and after
// the log was opened again.
func TestReadFindsWhatAListHas(t *testing.T) {
	random0 := rand.New(rand.NewPCG(1, 2))
	r := newRig(t, Limits{time.Hour * 1e6, 1 << 30})
	var all []wire.Job
	for i := 0; i < 1500; {
		var some []wire.Job
		for range 1 + random0.IntN(40) {
			some = append(some, random(random0, i))
			i++
		}
		r.append(some...)
		all = append(all, some...)
		if random0.IntN(20) == 0 {
			r.open(r.log.limits)
		}
	}
	if len(r.log.blocks) < 3 || len(r.log.pending) > blockJobs {
		t.Errorf("%d blocks, and %d pending pieces", len(r.log.blocks), len(r.log.pending))
	}
	slices.Reverse(all)
	app := func(s string) labels.Selector {
		selector, err := labels.Parse(s)
		must(t, err)
		return selector
	}
	for name, c := range map[string]struct {
		q    wire.Query
		want func(*wire.Job) bool
	}{
		"all":         {wire.Query{}, func(*wire.Job) bool { return true }},
		"a namespace": {wire.Query{Namespace: "ns1"}, func(j *wire.Job) bool { return j.Namespace == "ns1" }},
		"a name":      {wire.Query{Namespace: "ns1", Name: "job-7"}, func(j *wire.Job) bool { return j.Namespace == "ns1" && j.Name == "job-7" }},
		"a CronJob": {
			wire.Query{Namespace: "ns2", CronJob: "cron1"},
			func(j *wire.Job) bool { return j.Namespace == "ns2" && j.CronJob == "cron1" },
		},
		"a user":  {wire.Query{User: "user2"}, func(j *wire.Job) bool { return j.User == "user2" }},
		"nobody":  {wire.Query{User: "user9"}, func(j *wire.Job) bool { return false }},
		"a label": {wire.Query{Labels: app("rare=17")}, func(j *wire.Job) bool { return j.Labels["rare"] == "17" }},
		"one of labels": {
			wire.Query{Labels: app("app in (app1,app2)")},
			func(j *wire.Job) bool { return j.Labels["app"] == "app1" || j.Labels["app"] == "app2" },
		},
		"not a label": {wire.Query{Labels: app("app!=app1")}, func(j *wire.Job) bool { return j.Labels["app"] != "app1" }},
		"since": {
			wire.Query{Since: begin.Add(1000 * time.Second)},
			func(j *wire.Job) bool { return !j.Ended.Time.Before(begin.Add(1000 * time.Second)) },
		},
		"small pages":    {wire.Query{Limit: 7}, func(*wire.Job) bool { return true }},
		"and their pods": {wire.Query{User: "user1", Pods: true, Limit: 100}, func(j *wire.Job) bool { return j.User == "user1" }},
	} {
		t.Run(name, func(t *testing.T) {
			var want []wire.Job
			for _, j := range all {
				if !c.q.Pods {
					j.Pods = nil
				}
				if c.want(&j) {
					want = append(want, j)
				}
			}
			got, _ := r.read(c.q)
			if len(got) != len(want) {
				t.Fatalf("%d Jobs, want %d", len(got), len(want))
			}
			for i := range got {
				got[i].Created, got[i].Ended = want[i].Created, want[i].Ended // of another time zone
				for k := range got[i].Pods {
					got[i].Pods[k].Ended = want[i].Pods[k].Ended
				}
				if !reflect.DeepEqual(got[i], want[i]) {
					t.Fatalf("Job %d is %+v, want %+v", i, got[i], want[i])
				}
			}
		})
	}
}

// One line that cannot be read, as of a time that no reader takes, hides no others, and stops nothing.
func TestALineThatCannotBeRead(t *testing.T) {
	r := newRig(t, Limits{time.Hour * 1e6, 1 << 30})
	random0 := rand.New(rand.NewPCG(1, 2))
	for i := range 3 * blockJobs {
		j := random(random0, i)
		if i%10 == 0 {
			j.Ended = metav1.NewTime(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))
		}
		r.append(j)
	}
	all, _ := r.read(wire.Query{})
	if len(all) != 3*blockJobs-(3*blockJobs+9)/10 {
		t.Errorf("%d Jobs", len(all))
	}
}

// A page goes on where the one before has ended, though a block was made of what that one had.
func TestPagesGoOnAcrossANewBlock(t *testing.T) {
	r := newRig(t, Limits{time.Hour * 1e6, 1 << 30})
	source := rand.New(rand.NewPCG(1, 2))
	var want []string
	for i := range 250 {
		j := random(source, i)
		want = append(want, j.UID)
		r.append(j)
	}
	slices.Reverse(want)
	var got []string
	next := ""
	for {
		must(t, r.store.View(func(s *store.Snapshot) error {
			page, after, err := Read(s, wire.Query{Limit: 30, Continue: next})
			for _, j := range page {
				got = append(got, j.UID)
			}
			next = after
			return err
		}))
		if next == "" {
			break
		}
		r.append(random(source, 1000))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d Jobs of %d", len(got), len(want))
	}
	if len(r.log.blocks) != 1 {
		t.Errorf("%d blocks", len(r.log.blocks))
	}
}

// The oldest goes when all is too old or too large, and a limit of 0 keeps nothing.
func TestPrune(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 2))
	prune := func(r *rig, now time.Time) {
		t.Helper()
		must(t, r.store.Update(context.Background(), func(tx *store.Tx) error {
			done, err := r.log.Prune(transaction{tx}, now, 1000)
			if !done {
				t.Error("more is left to do")
			}
			return err
		}))
	}
	r := newRig(t, Limits{1000 * time.Second, 1 << 30})
	for i := range 2000 {
		r.append(random(source, i))
	}
	prune(r, begin.Add(2005*time.Second))
	left, _ := r.read(wire.Query{})
	if n := len(left); n < 1000 || n > 1000+blockJobs {
		t.Errorf("%d Jobs are left of the last 1000 seconds", n)
	}
	r.open(Limits{1000 * time.Hour, 20 << 10})
	prune(r, begin)
	left, _ = r.read(wire.Query{})
	if n := len(left); n == 0 || n > 600 {
		t.Errorf("%d Jobs are left in 20 KiB", n)
	}
	prune(r, begin.Add(10000*time.Hour))
	if left, _ = r.read(wire.Query{}); len(left) != 0 {
		t.Errorf("%d Jobs are left", len(left))
	}
	r.append(random(source, 3000)) // the numbers go on
	if left, _ = r.read(wire.Query{}); len(left) != 1 {
		t.Errorf("%d Jobs after a new one", len(left))
	}
	none := newRig(t, Limits{Age: time.Hour})
	none.append(random(source, 1))
	if left, _ = none.read(wire.Query{}); len(left) != 0 {
		t.Errorf("%d Jobs are kept in no space", len(left))
	}
}

// A damaged block is an error, and never a panic.
func FuzzBlock(f *testing.F) {
	source := rand.New(rand.NewPCG(1, 2))
	good, err := encodeBlock([]wire.Job{random(source, 1), random(source, 2)})
	must(f, err)
	f.Add(good)
	f.Add([]byte{})
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := newReader(wire.Query{User: "user1"})
		must(t, err)
		defer r.decoder.Close()
		_, _ = r.piece(piece{key: blocks + "/x"}, value)
	})
}
