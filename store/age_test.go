package store

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

// inVirtualTime calls f with what opens a store, in virtual time.
func inVirtualTime(t *testing.T, f func(t *testing.T, open func() *Store)) {
	t.Helper()
	path := t.TempDir() + "/jobd.db"
	synctest.Test(t, func(t *testing.T) {
		f(t, func() *Store {
			s, err := Open(path, Options{NoSync: true})
			if err != nil {
				t.Fatal(err)
			}
			return s
		})
	})
}

// readable reports whether the objects can be read as they were at a version.
func readable(t *testing.T, s *Store, version uint64) bool {
	t.Helper()
	err := s.View(func(sn *Snapshot) error { _, err := sn.At(version, ""); return err })
	if err != nil && !errors.Is(err, ErrCompacted) {
		t.Fatal(err)
	}
	return err == nil
}

func commits(s *Store) (id int) {
	_ = s.bolt.View(func(tx *bolt.Tx) error { id = tx.ID(); return nil })
	return id
}

func closeSound(t *testing.T, s *Store) {
	t.Helper()
	if err := errors.Join(s.Check(), s.Close()); err != nil {
		t.Error(err)
	}
}

func TestWhatIsSupersededIsForgottenThoughNobodyWrites(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, open func() *Store) {
		s := open()
		first := put(t, s, "secrets/a/s", "old")
		time.Sleep(time.Second)
		put(t, s, "secrets/a/s", "new")
		time.Sleep(defaultHistoryAge - time.Second)
		synctest.Wait()
		if !readable(t, s, first) {
			t.Error("forgotten too early")
		}
		time.Sleep(3 * defaultHistoryAge / strides)
		synctest.Wait()
		if st, _ := s.Stats(); readable(t, s, first) || st.HistoryBytes != 0 || st.Horizon != st.Version {
			t.Errorf("it is still there: %+v", st)
		}
		before := commits(s)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if n := commits(s) - before; n != 0 {
			t.Errorf("%d commits of a store with nothing to forget", n)
		}
		closeSound(t, s)
	})
}

func TestWhatIsSupersededIsForgottenAcrossRestarts(t *testing.T) {
	for _, c := range []struct {
		name         string
		lives, pause time.Duration
		times        int
	}{
		{"a daemon that is off for long", time.Second, time.Hour, 1},
		{"one that is restarted again and again", time.Minute, time.Second, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, open func() *Store) {
				s := open()
				first := put(t, s, "secrets/a/s", "old")
				put(t, s, "secrets/a/s", "new")
				for i := range c.times {
					time.Sleep(c.lives)
					closeSound(t, s)
					time.Sleep(c.pause)
					s = open()
					put(t, s, fmt.Sprintf("pods/a/%d", i), "")
				}
				synctest.Wait()
				if readable(t, s, first) {
					t.Error("it is still there")
				}
				closeSound(t, s)
			})
		})
	}
}

func TestMuchThatIsOldIsForgottenInParts(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, open func() *Store) {
		s := open()
		if err := s.Update(t.Context(), func(tx *Tx) error {
			for i := range 3 * maxCutScan {
				tx.Put(Object{Key: fmt.Sprintf("a/%d", i%10)})
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		before := commits(s)
		time.Sleep(2 * defaultHistoryAge)
		synctest.Wait()
		if st, _ := s.Stats(); st.HistoryBytes != 0 {
			t.Errorf("%+v", st)
		}
		if n := commits(s) - before; n < 3 {
			t.Errorf("%d commits", n)
		}
		closeSound(t, s)
	})
}

// A reader that keeps up sees every change, however old what it superseded has become meanwhile.
func TestReadersOfThePresentLoseNothing(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, open func() *Store) {
		s := open()
		first := put(t, s, "a/1", "0")
		quick, idle := s.Cursor(first, "a/"), s.Cursor(first, "b/")
		go func() { _, _, _ = idle.Next(t.Context(), 1) }()
		for i := range 100 {
			synctest.Wait()
			version := put(t, s, "a/1", fmt.Sprint(i))
			time.Sleep(defaultHistoryAge - time.Second)
			changes, _, err := quick.Next(t.Context(), 10)
			if err != nil || len(changes) != 1 || changes[0].Version != version || string(changes[0].Previous.Value) == "" {
				t.Fatalf("%v %v", changes, err)
			}
			time.Sleep(time.Duration(i) * time.Minute)
		}
		if idle.At() != s.Version() {
			t.Errorf("a reader of something else is at %d of %d", idle.At(), s.Version())
		}
		closeSound(t, s)
	})
}

func TestAgeOfTheHistory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const keep, stride = 100 * time.Second, 10 * time.Second
		now := time.Unix(1_000_000, 0)
		st := state{version: FirstVersion, horizon: FirstVersion}
		var marks ages
		written := map[uint64]int64{}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 60).Draw(rt, "pause")) * time.Second)
			before := st.version
			for range rapid.IntRange(0, 3).Draw(rt, "writes") {
				st.version++
				st.history++
				written[st.version] = now.Unix()
			}
			marks = marks.mark(now, st, before, stride)
			st.horizon = max(st.horizon, marks.upTo(now, keep))
			marks = marks.mark(now, st, st.version, stride)
			for version, at := range written {
				if old := now.Unix() - at; version <= st.horizon && old < seconds(keep) {
					rt.Fatalf("version %d is forgotten after %d seconds", version, old)
				} else if version > st.horizon && old >= seconds(keep+2*stride) {
					rt.Fatalf("version %d is kept after %d seconds", version, old)
				}
			}
			if due := marks.due(st, keep, stride); st.horizon < st.version && due.IsZero() {
				rt.Fatal("nobody will forget the rest")
			}
			if len(marks) > 2*strides+2 {
				rt.Fatalf("%d marks", len(marks))
			}
		}
	})
}

func TestAClockThatIsSetBack(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	marks := ages{{now.Unix() + 3600, 5}}.mark(now, state{version: 7, horizon: 3}, 7, time.Minute)
	if marks[0].at != now.Unix() || marks.upTo(now.Add(time.Hour), time.Hour) != 5 {
		t.Errorf("%v", marks)
	}
}
