package meter

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/usage"
	"github.com/jobd/jobd/runtime"
)

// world is a machine whose containers use processors at a constant rate.
type world struct {
	began    time.Time
	running  map[string]spinning // by ID
	readings int
}

type spinning struct {
	since  time.Time
	cores  float64
	memory int64
}

func (w *world) Containers(context.Context) ([]runtime.Status, error) {
	w.readings++
	out := []runtime.Status{{ID: "ended", PodUID: "ended", Name: "c", State: runtime.Exited}}
	for id, c := range w.running {
		out = append(out, runtime.Status{ID: id, PodUID: "uid-" + id, Name: "c", State: runtime.Running, StartedAt: c.since})
	}
	return out, nil
}

func (w *world) Usage(_, id string) (runtime.Usage, error) {
	c, ok := w.running[id]
	if !ok {
		return runtime.Usage{}, fmt.Errorf("no container %s", id)
	}
	return runtime.Usage{CPU: scaled(time.Since(c.since), c.cores), WorkingSet: c.memory}, nil
}

func scaled(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

func (w *world) meter() *Meter {
	return New(Options{
		Containers: w, Node: "here",
		Machine: func() (Machine, error) {
			return Machine{CPU: scaled(time.Since(w.began), 0.25), WorkingSet: 1 << 30}, nil
		},
		Keys: func(_ context.Context, uids []types.UID) (map[types.UID]string, error) {
			keys := map[types.UID]string{}
			for _, uid := range uids {
				if uid != "uid-stranger" {
					keys[uid] = "pods/default/" + string(uid)
				}
			}
			return keys, nil
		},
	})
}

// shown is what a measurement says, by pod.
func shown(t *testing.T, m *Meter) map[string]usage.Use {
	t.Helper()
	measured, err := m.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]usage.Use{"machine": measured.Machine}
	for _, p := range measured.Pods {
		out[p.Name] = p.Containers[0].Use
	}
	return out
}

func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{began: time.Now(), running: map[string]spinning{}}
		w.running["old"] = spinning{time.Now(), 0.5, 100}
		w.running["stranger"] = spinning{time.Now(), 1, 1}
		time.Sleep(time.Hour)
		m := w.meter()
		machine := func(over time.Duration) usage.Use {
			return usage.Use{CPU: 250 * time.Millisecond, Window: over, Memory: 1 << 30}
		}
		expect := func(want map[string]usage.Use) {
			t.Helper()
			if diff := cmp.Diff(want, shown(t, m)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		}
		old := func(over time.Duration) usage.Use {
			return usage.Use{CPU: 500 * time.Millisecond, Window: over, Memory: 100}
		}

		// The first question takes a second, in which the rate is measured: not the mean of the whole hour.
		w.running["old"] = spinning{time.Now().Add(-time.Hour), 0.5, 100}
		before := time.Now()
		expect(map[string]usage.Use{"machine": machine(time.Second), "uid-old": old(time.Second)})
		if took := time.Since(before); took != time.Second {
			t.Errorf("the first answer took %v", took)
		}
		// The next one within a second is the same, and nothing is read for it.
		read := w.readings
		time.Sleep(shortest / 2)
		expect(map[string]usage.Use{"machine": machine(time.Second), "uid-old": old(time.Second)})
		if w.readings != read {
			t.Errorf("%d readings for an answer that was there", w.readings-read)
		}
		// Later ones need no further wait. A container that has only just started is not shown.
		time.Sleep(4500 * time.Millisecond)
		w.running["new"] = spinning{time.Now().Add(-shortest / 2), 2, 7}
		w.running["recent"] = spinning{time.Now().Add(-2 * time.Second), 1, 8}
		before = time.Now()
		expect(map[string]usage.Use{
			"machine": machine(6 * time.Second), "uid-old": old(6 * time.Second),
			"uid-recent": {CPU: time.Second, Window: 2 * time.Second, Memory: 8},
		})
		if took := time.Since(before); took != 0 {
			t.Errorf("a later answer took %v", took)
		}
		// Rates are taken over ten seconds, or a little more.
		delete(w.running, "recent")
		for range 20 {
			time.Sleep(3 * time.Second)
			shown(t, m)
		}
		if over := shown(t, m)["uid-new"].Window; over != 12*time.Second || len(m.readings) > 6 {
			t.Errorf("the window is %v, of %d readings", over, len(m.readings))
		}
		// After a minute without a question it begins anew.
		time.Sleep(time.Hour)
		expect(map[string]usage.Use{
			"machine": machine(time.Second), "uid-old": old(time.Second),
			"uid-new": {CPU: 2 * time.Second, Window: time.Second, Memory: 7},
		})
		if len(m.readings) != 2 {
			t.Errorf("%d readings are kept", len(m.readings))
		}
	})
}

func TestAQuestionThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := (&world{began: time.Now()}).meter()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			time.Sleep(shortest / 2)
			cancel()
		}()
		if _, err := m.Measure(ctx); err == nil {
			t.Error("it was answered all the same")
		}
		if _, err := m.Measure(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestThisMachine(t *testing.T) {
	m, err := ReadMachine()
	if err != nil || m.CPU <= 0 || m.WorkingSet <= 0 {
		t.Errorf("%+v %v", m, err)
	}
}
