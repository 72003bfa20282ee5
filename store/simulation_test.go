package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// model is what a store must be equal to: plain maps, and everything that ever was.
type model struct {
	live    map[string]Object
	changes []Change // every change since the store was created
	past    []map[string]Object
}

func newModel() *model {
	return &model{live: map[string]Object{}, past: []map[string]Object{{}, {}}}
}

func (m *model) version() uint64 { return FirstVersion + uint64(len(m.changes)) }

func (m *model) clone() *model {
	return &model{live: maps.Clone(m.live), changes: slices.Clone(m.changes), past: slices.Clone(m.past)}
}

func (m *model) put(o Object) {
	c := Change{Version: m.version() + 1}
	o.Version = c.Version
	c.Object = o
	if before, ok := m.live[o.Key]; ok {
		c.Previous = &before
	}
	m.live[o.Key] = o
	m.add(c)
}

func (m *model) remove(key string) bool {
	before, ok := m.live[key]
	if ok {
		delete(m.live, key)
		m.add(Change{Version: m.version() + 1, Deleted: true, Object: before, Previous: &before})
	}
	return ok
}

func (m *model) add(c Change) {
	m.changes = append(m.changes, c)
	m.past = append(m.past, maps.Clone(m.live))
}

func (m *model) after(version uint64, prefix string) []Change {
	var out []Change
	for _, c := range m.changes {
		if c.Version > version && strings.HasPrefix(c.Object.Key, prefix) {
			out = append(out, c)
		}
	}
	return out
}

func list(objects map[string]Object, prefix, from string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		if strings.HasPrefix(key, prefix) && key >= from {
			out = append(out, show(objects[key]))
		}
	}
	return out
}

func show(o Object) string {
	return fmt.Sprintf("%s=%s@%d %s %v %d", o.Key, o.Value, o.Version, o.UID, o.Owners, o.Expires)
}

func collect(out *[]string) func(Object) bool {
	return func(o Object) bool { *out = append(*out, show(o)); return true }
}

var (
	simulatedKeys     = rapid.SampledFrom([]string{"a/1", "a/2", "a/10", "a/x/1", "ab/1", "b/1", "b/2"})
	simulatedPrefixes = rapid.SampledFrom([]string{"", "a/", "a", "b/", "a/1", "c"})
	simulatedOwners   = rapid.SliceOfN(rapid.SampledFrom([]string{"o", "o1", "p\x00q", ""}), 0, 3)
)

// simulatedCursor remembers what a reader of the log must see.
type simulatedCursor struct {
	prefix string
	at     uint64
}

// TestSimulation does the same to a store and to a model of it and compares all that can be read, across reopening,
// compaction and a history so short that it is cut all the time.
func TestSimulation(t *testing.T) {
	dir := t.TempDir()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		path := filepath.Join(dir, fmt.Sprintf("%d.db", run))
		options := Options{NoSync: true, HistoryBytes: rapid.SampledFrom([]int64{1, 200, 1 << 20}).Draw(t, "history")}
		s, err := Open(path, options)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		m := newModel()
		cursors := []simulatedCursor{{"", FirstVersion}, {"a/", FirstVersion}}

		reopen := func(t *rapid.T) {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err = Open(path, options); err != nil {
				t.Fatal(err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"update": func(t *rapid.T) {
				next := m.clone()
				fails := rapid.IntRange(0, 5).Draw(t, "fails") == 0
				failure := errors.New("failed")
				err := s.Update(context.Background(), func(tx *Tx) error {
					for range rapid.IntRange(0, 5).Draw(t, "operations") {
						simulateWrite(t, tx, next)
					}
					if got, want := tx.Version(), m.version(); got != want {
						t.Fatalf("version %d, want %d", got, want)
					}
					if fails {
						return failure
					}
					return nil
				})
				switch {
				case fails && !errors.Is(err, failure), !fails && err != nil:
					t.Fatal(err)
				case !fails:
					m = next
				}
			},
			"reopen": reopen,
			"compact": func(t *rapid.T) {
				if _, _, err := s.Compact(context.Background()); err != nil {
					t.Fatal(err)
				}
			},
			"cut": func(t *rapid.T) {
				if err := s.Cut(context.Background(), rapid.Uint64Range(0, m.version()).Draw(t, "version")); err != nil {
					t.Fatal(err)
				}
			},
			"follow": func(t *rapid.T) {
				i := rapid.IntRange(0, len(cursors)-1).Draw(t, "cursor")
				simulateCursor(t, s, m, &cursors[i], rapid.IntRange(1, 4).Draw(t, "max"))
			},
			"": func(t *rapid.T) {
				if s.Version() != m.version() {
					t.Fatalf("version %d, want %d", s.Version(), m.version())
				}
				err := s.View(func(sn *Snapshot) error { compareReads(t, sn, m); return nil })
				if err == nil {
					err = s.Check()
				}
				if err != nil {
					t.Fatal(err)
				}
			},
		})
	})
}

func simulateWrite(t *rapid.T, tx *Tx, m *model) {
	key := simulatedKeys.Draw(t, "key")
	if rapid.IntRange(0, 2).Draw(t, "delete") == 0 {
		if _, got := tx.Delete(key); got != m.remove(key) {
			t.Fatalf("delete of %s: %v", key, got)
		}
	} else {
		o := Object{Key: key, UID: "u", Owners: simulatedOwners.Draw(t, "owners"), Expires: rapid.Int64Range(0, 3).Draw(t, "expires")}
		o.Value = rapid.SliceOfN(rapid.ByteRange('a', 'z'), 0, 40).Draw(t, "value")
		if got := tx.Put(o); got != m.version()+1 {
			t.Fatalf("put made version %d, want %d", got, m.version()+1)
		}
		m.put(o)
	}
	got, ok := tx.Get(key)
	if want, wantOK := m.live[key]; ok != wantOK || ok && show(got) != show(want) {
		t.Fatalf("in the transaction, %s is %s, want %s", key, show(got), show(want))
	}
}

func compareReads(t *rapid.T, sn *Snapshot, m *model) {
	prefix, from := simulatedPrefixes.Draw(t, "prefix"), simulatedKeys.Draw(t, "from")
	var got []string
	sn.Range(prefix, from, collect(&got))
	if want := list(m.live, prefix, from); !slices.Equal(got, want) {
		t.Fatalf("range of %q from %q:\n%q\nwant\n%q", prefix, from, got, want)
	}
	if got, want := sn.Count(prefix), len(list(m.live, prefix, "")); got != want {
		t.Fatalf("%d objects with %q, want %d", got, prefix, want)
	}
	owner := rapid.SampledFrom([]string{"o", "o1", "p\x00q", "p", ""}).Draw(t, "owner")
	owned := maps.Clone(m.live)
	maps.DeleteFunc(owned, func(_ string, o Object) bool { return !slices.Contains(o.Owners, owner) })
	got = nil
	sn.Owned(owner, prefix, from, func(key string) bool {
		o, _ := sn.Get(key)
		return collect(&got)(o)
	})
	if want := list(owned, prefix, from); !slices.Equal(got, want) {
		t.Fatalf("%q owns of %q from %q\n%q\nwant\n%q", owner, prefix, from, got, want)
	}
	var keys []string
	sn.Keys(prefix, from, func(key string) bool { keys = append(keys, key); return true })
	inRange := maps.Clone(m.live)
	maps.DeleteFunc(inRange, func(key string, _ Object) bool { return !strings.HasPrefix(key, prefix) || key < from })
	if want := slices.Sorted(maps.Keys(inRange)); !slices.Equal(keys, want) {
		t.Fatalf("keys of %q from %q: %q, want %q", prefix, from, keys, want)
	}
	versions := map[string]uint64{}
	sn.Versions(prefix, func(key []byte, version uint64) bool { versions[string(key)] = version; return true })
	for key, o := range m.live {
		if version, ok := versions[key]; ok != strings.HasPrefix(key, prefix) || ok && version != o.Version {
			t.Fatalf("%q has version %d (%t) among those of %q, want %d", key, version, ok, prefix, o.Version)
		}
		delete(versions, key)
	}
	if len(versions) > 0 {
		t.Fatalf("%v have versions, but are not there", versions)
	}
	expiring := maps.Clone(m.live)
	maps.DeleteFunc(expiring, func(_ string, o Object) bool { return o.Expires == 0 })
	got = nil
	sn.Expiring(collect(&got))
	want := list(expiring, "", "")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("expiring are\n%q\nwant\n%q", got, want)
	}
	comparePast(t, sn, m, prefix, from)
}

func comparePast(t *rapid.T, sn *Snapshot, m *model, prefix, from string) {
	version := rapid.Uint64Range(FirstVersion, m.version()).Draw(t, "version")
	past, err := sn.At(version, prefix)
	if version < sn.Horizon() {
		if !errors.Is(err, ErrCompacted) {
			t.Fatalf("at version %d, below the horizon %d: %v", version, sn.Horizon(), err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	past.Range(from, Wanted{}, collect(&got))
	want := list(m.past[version], prefix, from)
	if !slices.Equal(got, want) || past.Count(from) != len(want) {
		t.Fatalf("at version %d, %q from %q:\n%q\nwant\n%q, counted %d", version, prefix, from, got, want, past.Count(from))
	}
	var some, wanted []string
	odd := func(value []byte) bool { return len(value)%2 == 1 }
	past.Range(from, Wanted{Value: odd}, collect(&some))
	past.Range(from, Wanted{}, func(o Object) bool {
		if odd(o.Value) {
			collect(&wanted)(o)
		}
		return true
	})
	if !slices.Equal(some, wanted) {
		t.Fatalf("at version %d, some of %q from %q:\n%q\nwant\n%q", version, prefix, from, some, wanted)
	}
	for key, o := range m.past[version] {
		if got, ok := past.Get(key); strings.HasPrefix(key, prefix) && (!ok || show(got) != show(o)) {
			t.Fatalf("at version %d: %s, want %s", version, show(got), show(o))
		}
	}
}

func simulateCursor(t *rapid.T, s *Store, m *model, sc *simulatedCursor, max int) {
	due := m.after(sc.at, sc.prefix)
	c := s.Cursor(sc.at, sc.prefix)
	ctx, cancel := context.WithCancel(context.Background())
	if len(due) == 0 {
		cancel()
	}
	defer cancel()
	var horizon uint64
	if err := s.View(func(sn *Snapshot) error { horizon = sn.Horizon(); return nil }); err != nil {
		t.Fatal(err)
	}
	got, at, err := c.Next(ctx, max)
	switch {
	case sc.at < horizon:
		if !errors.Is(err, ErrCompacted) {
			t.Fatalf("cursor at %d, below the horizon %d: %v", sc.at, horizon, err)
		}
		sc.at = m.version() // as a reader does: list again
		return
	case len(due) == 0:
		if !errors.Is(err, context.Canceled) || at != m.version() {
			t.Fatalf("nothing to read: %v, %v, at %d", describe(got), err, at)
		}
	case err != nil:
		t.Fatal(err)
	}
	want := due[:min(len(due), max)]
	if !slices.Equal(describe(got), describe(want)) {
		t.Fatalf("after %d with %q:\n%s\nwant\n%s", sc.at, sc.prefix,
			strings.Join(describe(got), "\n"), strings.Join(describe(want), "\n"))
	}
	if len(want) > 0 && at < want[len(want)-1].Version || len(m.after(sc.at, sc.prefix)) > max && at >= due[max].Version {
		t.Fatalf("position %d after %v", at, describe(want))
	}
	sc.at = at
}
