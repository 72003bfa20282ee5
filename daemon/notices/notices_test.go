package notices_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/requests"
	"github.com/jobd/jobd/runtime/simulated"
	"github.com/jobd/jobd/store"
)

// newWorld is a world with a receiver for each kind.
func newWorld(t *testing.T) *controltest.World {
	w := controltest.New(t)
	w.Receivers = notify.Receivers{
		"ops":   {Webhook: &notify.Webhook{URL: "http://127.0.0.1:1"}},
		"watch": {Healthcheck: &notify.Healthcheck{URL: "http://127.0.0.1:1"}},
		"other": {Webhook: &notify.Webhook{URL: "http://127.0.0.1:1"}, Namespaces: []string{"team"}},
	}
	w.Stop()
	w.Start()
	return w
}

// written returns the notices that wait for receivers, in order: "RECEIVER KIND NAME".
func written(w *controltest.World) (all []string, ids []string) {
	w.T.Helper()
	synctest.Wait()
	if err := w.Store.View(func(s *store.Snapshot) error {
		var failed error
		s.Range(objects.Notices+"/", "", func(o store.Object) bool {
			var p notify.Pending
			if failed = json.Unmarshal(o.Value, &p); failed != nil {
				return false
			}
			receiver, _ := objects.NameOf(o.Key)
			name := p.Object.Name
			if p.CronJob != "" {
				name = p.CronJob
			}
			all, ids = append(all, fmt.Sprintf("%s %s %s", receiver, p.Kind, name)), append(ids, receiver+p.ID)
			return true
		})
		return failed
	}); err != nil {
		w.T.Fatal(err)
	}
	return all, ids
}

func expect(w *controltest.World, what string, want ...string) {
	w.T.Helper()
	got, ids := written(w)
	if !slices.Equal(got, want) {
		w.T.Errorf("%s: %q, want %q", what, got, want)
	}
	slices.Sort(ids)
	if len(slices.Compact(ids)) != len(got) {
		w.T.Errorf("%s: an id comes twice", what)
	}
}

func asks(annotations ...string) map[string]string {
	all := map[string]string{}
	for i := 0; i < len(annotations); i += 2 {
		all[annotations[i]] = annotations[i+1]
	}
	return all
}

// A night of a hundred CronJobs, with failures, recoveries and one that does not run, gives these notices and no others. The
// daemon is killed in between.
func TestANight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		kinds := []struct {
			name, on      string
			first, second string // exit codes
			want          []string
		}{
			{"good", "failed,recovered", "0", "0", nil},
			{"mended", "failed,recovered", "1", "0", []string{"failed", "recovered"}},
			{"broken", "failed", "1", "1", []string{"failed", "failed"}},
			{"all", "finished", "0", "1", []string{"finished", "failed"}},
			{"quiet", "waits", "1", "0", nil},
		}
		want := map[string][]string{"idle": {"overdue"}}
		code := func(cj *batchv1.CronJob, code string) {
			cj.Spec.JobTemplate.Spec.BackoffLimit = ptr.To(int32(0))
			cj.Spec.JobTemplate.Spec.Template.Annotations[simulated.ExitCode] = code
		}
		for i := range 99 {
			k := kinds[i%len(kinds)]
			name := fmt.Sprintf("%s-%d", k.name, i)
			w.CreateCronJob(name, "0 1,3 * * *", "10m", func(cj *batchv1.CronJob) {
				cj.Annotations = asks(notices.ReceiversAnnotation, "ops", notices.OnAnnotation, k.on)
				code(cj, k.first)
			})
			if len(k.want) > 0 {
				want[name] = k.want
			}
		}
		w.CreateCronJob("idle", "0 1,3 * * *", "10m", func(cj *batchv1.CronJob) {
			cj.Annotations = asks(notices.ReceiversAnnotation, "ops", notices.EveryAnnotation, "5h")
			cj.Spec.Suspend = ptr.To(true)
		})
		time.Sleep(time.Hour + 5*time.Minute)
		w.Stop()
		w.Start()
		time.Sleep(time.Hour)
		for i := range 99 {
			cj := w.CronJob(fmt.Sprintf("%s-%d", kinds[i%len(kinds)].name, i))
			code(cj, kinds[i%len(kinds)].second)
			w.Put(objects.Key(objects.CronJobs, cj), cj)
		}
		time.Sleep(2 * time.Hour)
		w.Stop()
		time.Sleep(3 * time.Hour) // the machine is off when something is due
		w.Start()
		time.Sleep(time.Minute)
		got := map[string][]string{}
		lines, ids := written(w)
		for _, line := range lines {
			_, line, _ := strings.Cut(line, " ")
			kind, name, _ := strings.Cut(line, " ")
			got[name] = append(got[name], kind)
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if !slices.Equal(got[name], want[name]) {
				t.Errorf("%s: %q, want %q", name, got[name], want[name])
			}
			delete(got, name)
		}
		slices.Sort(ids)
		if len(got) > 0 || len(slices.Compact(ids)) != len(lines) {
			t.Errorf("further ones: %v; %d ids of %d", got, len(slices.Compact(ids)), len(lines))
		}
		if said := w.Events("idle"); !slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, "Overdue: ") }) {
			t.Errorf("no event: %q", said)
		}
	})
}

// A Job is told of once, however many of its pods fail, by the receivers that it, or its namespace, names.
func TestAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		j := controltest.Simulate("train", "1m", "1")
		j.Spec.BackoffLimit = ptr.To(int32(4))
		j.Annotations = asks(notices.ReceiversAnnotation, "ops,watch,other,nobody")
		w.Create(j)
		time.Sleep(30 * time.Second)
		w.Stop()
		w.Start()
		time.Sleep(time.Hour)
		expect(w, "a failed Job", "ops failed train", "watch started train", "watch failed train")
		var lost []string
		for _, e := range w.Events("train") {
			if reason, _, _ := strings.Cut(e, ":"); reason == "NoticeNotDelivered" {
				lost = append(lost, e)
			}
		}
		if len(lost) != 1 || !strings.Contains(lost[0], "nobody is not told of") {
			t.Errorf("of a receiver that there is not: %q", lost)
		}
		w.Create(controltest.Simulate("unasked", "1m", "1"))
		time.Sleep(time.Hour)
		if all, _ := written(w); len(all) != 3 {
			t.Errorf("unasked for: %q", all)
		}
	})
}

// One that waits is told of once, also over a restart, and that it has started late when it has.
func TestAJobThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		w.Allocatable = requests.Resources{"cpu": 1000}
		w.Stop()
		w.Start()
		w.Bare("before", "1", "2h", nil)
		j := controltest.Simulate("late", "1m", "0")
		j.Spec.Template.Spec.Containers = controltest.Asking("1")
		j.Annotations = asks(
			notices.ReceiversAnnotation, "ops", notices.OnAnnotation, "waits,started-late,finished", notices.AfterAnnotation, "30m",
		)
		w.Create(j)
		time.Sleep(29 * time.Minute)
		expect(w, "in time")
		time.Sleep(2 * time.Minute)
		expect(w, "it waits", "ops waits late")
		w.Stop()
		w.Start()
		time.Sleep(3 * time.Hour)
		expect(w, "at the end", "ops waits late", "ops started-late late", "ops finished late")
		left := 0
		_ = w.Store.View(func(s *store.Snapshot) error {
			s.Keys(objects.NoticeMarks+"/", "", func(string) bool { left++; return true })
			s.Keys(objects.NoticeMemories+"/", "", func(string) bool { left++; return true })
			return nil
		})
		if left > 0 {
			t.Errorf("%d objects are left of it", left)
		}
	})
}

// What is expected of a name stays expected when its Job is gone, until a success, a Job that expects nothing, or a month.
func TestExpectedOfAName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		backup := func(code string, expects bool) {
			j := controltest.Simulate("backup", "1m", code)
			j.Spec.TTLSecondsAfterFinished, j.Spec.BackoffLimit = ptr.To(int32(0)), ptr.To(int32(0))
			j.Annotations = asks(notices.ReceiversAnnotation, "ops", notices.EveryAnnotation, "26h")
			if !expects {
				j.Annotations = nil
			}
			w.Create(j)
			time.Sleep(time.Hour)
		}
		backup("0", true)
		expect(w, "a success")
		w.Stop()
		time.Sleep(24 * time.Hour)
		w.Start()
		expect(w, "in time")
		time.Sleep(2 * time.Hour)
		expect(w, "too late", "ops overdue backup")
		if err := w.Store.View(func(s *store.Snapshot) error {
			all, err := notify.Expectations(s)
			if err != nil || len(all) != 1 || all[0].Name != "backup" || !all[0].Late(time.Now()) || all[0].Last == nil || !all[0].Last.Equal(all[0].Since) {
				t.Errorf("what is expected of names: %+v, %v", all, err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		backup("0", true)
		expect(w, "mended", "ops overdue backup", "ops recovered backup")
		time.Sleep(28 * time.Hour)
		expect(w, "again", "ops overdue backup", "ops recovered backup", "ops overdue backup")
		backup("0", false)
		time.Sleep(100 * time.Hour)
		expect(w, "no longer expected", "ops overdue backup", "ops recovered backup", "ops overdue backup")
	})
}

// A Job that another controller ends while the daemon does not run is told of.
func TestAJobOfAnotherController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		j := controltest.Simulate("far", "1m", "0")
		j.Spec.ManagedBy = ptr.To("example.com/other")
		j.Annotations = asks(notices.ReceiversAnnotation, "ops")
		w.Create(j)
		time.Sleep(time.Minute)
		w.Stop()
		ended := j.DeepCopy()
		ended.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: "True", LastTransitionTime: metav1.Now()}}
		value, err := scheme.Encode(ended)
		if err != nil {
			t.Fatal(err)
		}
		if w.Store, err = store.Open(w.Path, store.Options{NoSync: true}); err != nil {
			t.Fatal(err)
		}
		w.Write(func(tx *store.Tx) error {
			tx.Put(store.Object{Key: objects.Key(objects.Jobs, ended), UID: string(j.UID), Value: value})
			return nil
		})
		if err := w.Store.Close(); err != nil {
			t.Fatal(err)
		}
		w.Start()
		time.Sleep(time.Minute)
		expect(w, "its end", "ops failed far")
		w.Stop()
		w.Start()
		time.Sleep(time.Minute)
		expect(w, "its end, once", "ops failed far")
	})
}

// A namespace whose Jobs start one another over and over does not fill a queue that others need, and is told so.
func TestTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		for i := range notify.MaxNamespacePending + 50 {
			j := controltest.Simulate(fmt.Sprint("flood-", i), "1s", "1")
			j.Spec.BackoffLimit, j.Annotations = ptr.To(int32(0)), asks(notices.ReceiversAnnotation, "ops")
			w.Create(j)
		}
		time.Sleep(time.Minute)
		if all, _ := written(w); len(all) != notify.MaxNamespacePending {
			t.Errorf("%d notices wait", len(all))
		}
		if n := w.Figures()["jobd_notices_refused_total{failed,ops}"]; n != 50 {
			t.Errorf("%v were refused", n)
		}
	})
}

// standings returns how many notices each receiver was refused.
func standings(w *controltest.World) map[string]int {
	w.T.Helper()
	all := map[string]int{}
	_ = w.Store.View(func(s *store.Snapshot) error {
		s.Range(objects.NoticeStandings+"/", "", func(o store.Object) bool {
			var s notices.Standing
			if err := json.Unmarshal(o.Value, &s); err != nil || s.RefusedAt == nil || s.RefusedError == "" || s.RefusedLast == "" {
				w.T.Errorf("%s: %v", o.Value, err)
			}
			_, name := objects.NameOf(o.Key)
			all[name] = s.Refused
			return true
		})
		return nil
	})
	return all
}

// Whoever asks for a receiver that there is not is told so, by an event and a count, also where there are no receivers at all. Names
// that somebody makes up are counted up to a number of them.
func TestReceiversThatThereAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		fail := func(name string, receivers string) {
			t.Helper()
			j := controltest.Simulate(name, "1s", "1")
			j.Spec.BackoffLimit, j.Annotations = ptr.To(int32(0)), asks(notices.ReceiversAnnotation, receivers)
			w.Create(j)
			time.Sleep(time.Minute)
		}
		fail("typo", "opps")
		if got := standings(w); len(got) != 1 || got["opps"] != 1 {
			t.Errorf("refused: %v", got)
		}
		for i := range 12 {
			var names []string
			for k := range 10 {
				names = append(names, fmt.Sprint("made-up-", i, "-", k))
			}
			fail(fmt.Sprint("flood-", i), strings.Join(names, ","))
		}
		if got := standings(w); len(got) != 101 || got[notices.Others] != 21 {
			t.Errorf("%d are counted, %d as others", len(got), got[notices.Others])
		}
		w.Receivers = nil
		w.Stop()
		w.Start()
		fail("alone", "ops")
		fail("unasked", "")
		if got := standings(w); len(got) != 101 || got[notices.Others] != 22 {
			t.Errorf("%d are counted, %d as others", len(got), got[notices.Others])
		}
		lost := func(name string) (n int) {
			for _, e := range w.Events(name) {
				if strings.HasPrefix(e, "NoticeNotDelivered: ") {
					n++
				}
			}
			return n
		}
		if lost("alone") != 1 || lost("unasked") != 0 {
			t.Errorf("events %q, %q", w.Events("alone"), w.Events("unasked"))
		}
		w.Stop()
		time.Sleep(31 * 24 * time.Hour)
		w.Start()
		time.Sleep(10 * time.Minute)
		if got := standings(w); len(got) != 0 {
			t.Errorf("%v are remembered after a month", got)
		}
	})
}

// Pings of a service that is down take no room of others: of each check no more than the last run waits, also over a restart, and they
// are none of the notices that a namespace may send in a time.
func TestPingsOfAServiceThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		w.CreateCronJob("often", "*/20 * * * *", "5s", func(cj *batchv1.CronJob) { cj.Annotations = asks(notices.ReceiversAnnotation, "watch") })
		for range 4 {
			time.Sleep(100*time.Minute + 20*time.Second)
			w.Stop()
			w.Start()
		}
		expect(w, "the last run", "watch started often", "watch finished often")
		j := controltest.Simulate("train", "1m", "1")
		j.Spec.BackoffLimit, j.Annotations = ptr.To(int32(0)), asks(notices.ReceiversAnnotation, "ops,watch")
		w.Create(j)
		time.Sleep(70 * time.Second)
		expect(w, "and others", "ops failed train", "watch started often", "watch finished often", "watch started train", "watch failed train")
		if n := w.Figures()["jobd_notices_refused_total{failed,ops}"]; n != 0 {
			t.Errorf("%v were refused", n)
		}
	})
}

// remembered returns what is remembered of names, in order.
func remembered(w *controltest.World) (names []string) {
	w.T.Helper()
	if err := w.Store.View(func(s *store.Snapshot) error {
		s.Keys(objects.NoticeMemories+"/", "", func(key string) bool {
			_, name := objects.NameOf(key)
			names = append(names, name)
			return true
		})
		return nil
	}); err != nil {
		w.T.Fatal(err)
	}
	return names
}

// A Job says itself who controls it. That is believed if it is so: a CronJob of that name, with that UID.
func TestForgedControllers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		w.CreateCronJob("nightly", "0 1 1 1 *", "1m", func(cj *batchv1.CronJob) {
			cj.Annotations = asks(notices.ReceiversAnnotation, "ops")
		})
		nightly := w.CronJob("nightly")
		run := func(name string, code string, of *batchv1.CronJob, uid types.UID, annotations map[string]string) {
			t.Helper()
			j := controltest.Simulate(name, "1s", code)
			j.Spec.BackoffLimit, j.Annotations = ptr.To(int32(0)), annotations
			j.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "CronJob", Name: of.Name, UID: uid, Controller: ptr.To(true)}}
			if uid != nightly.UID { // or else it is removed at once, since its owner is gone
				j.OwnerReferences = append(j.OwnerReferences, metav1.OwnerReference{
					APIVersion: "batch/v1", Kind: "CronJob", Name: nightly.Name, UID: nightly.UID,
				})
			}
			w.Create(j)
			time.Sleep(time.Minute)
		}
		run("real", "1", nightly, nightly.UID, nil)
		expect(w, "of the CronJob", "ops failed nightly")
		run("forged", "0", nightly, "another", asks(notices.ReceiversAnnotation, "ops", notices.OnAnnotation, "finished"))
		expect(w, "of another one of that name", "ops failed nightly", "ops finished forged")
		nowhere := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "nowhere"}}
		run("lost", "1", nowhere, "u", asks(notices.ReceiversAnnotation, "ops"))
		expect(w, "of none", "ops failed nightly", "ops finished forged", "ops failed lost")
		if got, want := remembered(w), []string{"cronjob.nightly", "job.lost"}; !slices.Equal(got, want) {
			t.Errorf("remembered are %q, want %q", got, want)
		}
		run("mended", "0", nightly, nightly.UID, nil)
		expect(w, "of the CronJob", "ops failed nightly", "ops finished forged", "ops failed lost", "ops recovered nightly")
	})
}

// What is remembered of names of Jobs is bounded, also over a restart, and forgotten after a month.
func TestNamesThatAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		fail := func(part string, n int) {
			for i := range n {
				j := controltest.Simulate(fmt.Sprint(part, "-", i), "1s", "1")
				j.Spec.BackoffLimit, j.Annotations = ptr.To(int32(0)), asks(notices.ReceiversAnnotation, "watch", notices.OnAnnotation, "waits")
				w.Create(j)
			}
			time.Sleep(10 * time.Minute)
		}
		w.Write(func(tx *store.Tx) error {
			for i := range 990 {
				tx.Put(store.Object{
					Key: store.Key(objects.NoticeMemories, "default", fmt.Sprint("job.z-", i)), Value: []byte(`{"failed":true}`),
					Expires: time.Now().Add(30 * 24 * time.Hour).Unix(),
				})
			}
			return nil
		})
		w.Stop()
		w.Start()
		fail("a", 5)
		w.Stop()
		w.Start()
		fail("b", 10)
		if got := remembered(w); len(got) != 1000 {
			t.Errorf("%d names are remembered", len(got))
		}
		j := controltest.Simulate("expected", "1s", "1") // which has room of its own
		j.Spec.BackoffLimit, j.Annotations = ptr.To(int32(0)), asks(notices.ReceiversAnnotation, "watch", notices.EveryAnnotation, "20h")
		w.Create(j)
		time.Sleep(10 * time.Minute)
		if got := remembered(w); len(got) != 1001 || !slices.Contains(got, "job.expected") {
			t.Errorf("%d names are remembered, and what is expected of another is not", len(got))
		}
		lost := 0
		for i := range 10 {
			for _, e := range w.Events(fmt.Sprint("b-", i)) {
				if strings.Contains(e, "nobody will be told when a Job of this name has recovered") {
					lost++
				}
			}
		}
		if lost != 5 {
			t.Errorf("%d are told that they are not remembered", lost)
		}
		w.Stop()
		time.Sleep(31 * 24 * time.Hour)
		w.Start()
		time.Sleep(10 * time.Minute)
		if got := remembered(w); len(got) > 0 {
			t.Errorf("%q are remembered after a month", got)
		}
		fail("c", 10)
		if got := remembered(w); len(got) != 10 {
			t.Errorf("%d of 10 names are remembered", len(got))
		}
	})
}
