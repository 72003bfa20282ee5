package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/jobd/jobd/api/server"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/requests"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/store"
)

// universe is a daemon with its API, what it stands on, and who watches it.
type universe struct {
	*controltest.World
	r      *rand.Rand // of the faults; mu is held
	client kubernetes.Interface
	watch  *watcher
	disk   disk
	aside  string // where the store is kept as it was when the daemon ended

	mu     sync.Mutex
	below  *failing // of the daemon that runs
	faults faults
	full   bool
	// crashIn is how many calls of the runtime are left until the daemon ends; below 0: it does not.
	crashIn int
	broken  []string // the rules that were
	started map[string]bool
	total   figures
}

// figures say how much a plan has tried.
type figures struct {
	time                          time.Duration
	jobSets, jobs, pods, restarts int
	gangs, claims                 int
	containers, kills, faults     int
	filled, refused               int
}

func (f *figures) add(more figures) {
	f.time += more.time
	f.jobSets, f.jobs, f.pods, f.restarts = f.jobSets+more.jobSets, f.jobs+more.jobs, f.pods+more.pods, f.restarts+more.restarts
	f.gangs, f.claims = f.gangs+more.gangs, f.claims+more.claims
	f.containers, f.kills, f.faults = f.containers+more.containers, f.kills+more.kills, f.faults+more.faults
	f.filled, f.refused = f.filled+more.filled, f.refused+more.refused
}

func (f figures) String() string {
	return fmt.Sprintf("%v of virtual time, %d JobSets, %d Jobs, %d gangs, %d pods, %d claims, %d containers started, %d calls of the runtime failed, %d kills, %d restarts in order, the disk filled %d times, %d starts refused for that",
		f.time.Round(time.Hour), f.jobSets, f.jobs, f.gangs, f.pods, f.claims, f.containers, f.faults, f.kills, f.restarts, f.filled, f.refused)
}

// faults are how many of 1,000 calls of the runtime fail in some way.
type faults struct{ refuse, hang, answer int }

func newUniverse(t *testing.T, seed uint64, d disk) *universe {
	u := &universe{World: controltest.New(t), disk: d, r: rand.New(rand.NewPCG(seed, 1)), crashIn: -1, started: map[string]bool{}}
	u.Stop()
	u.aside = u.Path + ".then"
	path := filepath.Join(d.dir, "jobd.db")
	if err := d.put(u.Path, path); err != nil {
		t.Fatal(err)
	}
	u.Path = path
	u.Reserve = int64(seed%3) << 20
	u.Gangs = seed%2 == 1
	u.Allocatable = requests.Resources{"cpu": 6000}
	u.HistoryBytes = 1 << 30 // the watcher sees everything
	u.Between = func(r runtime.Runtime) runtime.Runtime {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.below = &failing{Runtime: r, universe: u}
		return u.below
	}
	u.Full = func(string) error {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.full {
			return errors.New("there is no room on the disk")
		}
		return nil
	}
	u.watch = newWatcher(u)
	u.start()
	return u
}

// start starts a daemon and its API, and tries again as systemd does while the disk is too full for that: somebody makes room in the end.
func (u *universe) start() {
	for {
		err := u.tryStart()
		if err == nil {
			return
		}
		if !errors.Is(err, store.ErrFull) {
			u.T.Fatal(err)
		}
		time.Sleep(time.Minute)
		u.mu.Lock()
		u.total.refused++
		makesRoom := u.r.IntN(4) == 0
		u.mu.Unlock()
		if makesRoom {
			if err := u.disk.empty(); err != nil {
				u.T.Fatal(err)
			}
		}
	}
}

// tryStart leaves nothing of a daemon that did not start.
func (u *universe) tryStart() error {
	if err := u.TryStart(); err != nil {
		return err
	}
	s, err := server.New(server.Config{
		Store: u.Store, Version: "chaos", NodeName: "test", Queue: u.Control, History: history.Reader{Store: u.Store}, Begun: history.Begun,
		WorkloadWithJob: u.Gangs,
	})
	if err != nil {
		u.Stop()
		return err
	}
	u.client, err = kubernetes.NewForConfig(&rest.Config{Host: "http://jobd", Transport: inProcess{s.Local()}, QPS: -1})
	return err
}

// inProcess carries requests to a handler.
type inProcess struct{ http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	in := r.Clone(r.Context())
	in.RequestURI, in.RemoteAddr = r.URL.RequestURI(), "@"
	if in.Body == nil {
		in.Body = http.NoBody
	}
	p.ServeHTTP(w, in)
	a := w.Result()
	body, err := io.ReadAll(a.Body)
	a.Body, a.Request = io.NopCloser(bytes.NewReader(body)), r
	return a, err
}

// violated notes that a rule was broken.
func (u *universe) violated(format string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.broken = append(u.broken, fmt.Sprintf(format, args...))
}

// kill ends the daemon: nothing that it does from now on has an effect. mu is held.
func (u *universe) kill() {
	if u.below.gone {
		return
	}
	u.below.gone = true
	u.total.kills++
	u.crashIn = -1
	f, err := os.Create(u.aside)
	if err == nil {
		_, err = u.Store.Backup(f)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		u.T.Error(err)
	}
}

func (u *universe) isDead() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.below.gone
}

// revive starts the next daemon after one that was killed, from what was committed then. It may be killed on the way.
func (u *universe) revive(after time.Duration) {
	for u.isDead() {
		u.Stop()
		if err := u.disk.put(u.aside, u.Path); err != nil {
			u.T.Fatal(err)
		}
		time.Sleep(after)
		u.start()
		u.watch.restarted()
		synctest.Wait()
	}
}

// failing is the runtime as one daemon sees it.
type failing struct {
	runtime.Runtime
	universe *universe
	gone     bool // the daemon has ended
}

var errGone = fmt.Errorf("the daemon has ended: %w", errdefs.ErrUnavailable)

// pass is called before and after each call that has an effect. The daemon may end there.
func (f *failing) pass() error {
	u := f.universe
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.crashIn--; u.crashIn == 0 && !f.gone {
		u.kill()
	}
	if f.gone {
		return errGone
	}
	return nil
}

// call makes a call, which may fail on either side of its effect.
func (f *failing) call(ctx context.Context, do func() error) error {
	if err := f.pass(); err != nil {
		return err
	}
	u := f.universe
	u.mu.Lock()
	n, wait := u.r.IntN(1000), time.Duration(u.r.IntN(40_000))*time.Millisecond
	faults := u.faults
	if n < faults.refuse+faults.hang || n >= 1000-faults.answer {
		u.total.faults++
	}
	u.mu.Unlock()
	switch {
	case n < faults.refuse:
		return fmt.Errorf("not now: %w", errdefs.ErrUnavailable)
	case n < faults.refuse+faults.hang:
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := f.pass(); err != nil {
		return err
	}
	err := do()
	if gone := f.pass(); gone != nil {
		return gone
	}
	if err == nil && n >= 1000-faults.answer {
		return fmt.Errorf("the answer was lost: %w", errdefs.ErrUnavailable)
	}
	return err
}

// Start notes what is really started: no attempt of a container may be that twice.
func (f *failing) Start(ctx context.Context, c runtime.Container) (status runtime.Status, err error) {
	err = f.call(ctx, func() error {
		u := f.universe
		before, err := f.Containers(ctx)
		if err != nil {
			return err
		}
		if status, err = f.Runtime.Start(ctx, c); err != nil {
			return err
		}
		for _, s := range before {
			if s.ID == c.ID {
				return nil
			}
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.started[c.ID] {
			u.broken = append(u.broken, "container "+c.ID+" was started twice")
		}
		u.started[c.ID] = true
		u.total.containers++
		return nil
	})
	return status, err
}

func (f *failing) Signal(ctx context.Context, id string, sig syscall.Signal, all bool) error {
	return f.call(ctx, func() error { return f.Runtime.Signal(ctx, id, sig, all) })
}

func (f *failing) Remove(ctx context.Context, id string) error {
	return f.call(ctx, func() error { return f.Runtime.Remove(ctx, id) })
}

// OnExit reports exits late, and so in any order.
func (f *failing) OnExit(tell func(runtime.Status)) {
	f.Runtime.OnExit(func(s runtime.Status) {
		u := f.universe
		u.mu.Lock()
		late := time.Duration(0)
		if u.r.IntN(1000) < u.faults.hang {
			late = time.Duration(u.r.IntN(20_000)) * time.Millisecond
		}
		u.mu.Unlock()
		if late == 0 {
			tell(s)
			return
		}
		go func() {
			time.Sleep(late)
			tell(s)
		}()
	})
}

// Close leaves the containers to the next daemon.
func (f *failing) Close() error { return nil }
