package store

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// letters are the words of the values of tests: what they begin with, up to a point. Of a value without one they are not known.
func letters(value []byte, add func(uint32)) bool {
	for _, b := range value {
		if b == '.' {
			return true
		}
		add(uint32(b))
	}
	return false
}

func hasLetters(value []byte, groups [][]uint32) bool {
	words, _, _ := strings.Cut(string(value), ".")
	for _, group := range groups {
		if !slices.ContainsFunc(group, func(word uint32) bool { return strings.ContainsRune(words, rune(word)) }) {
			return false
		}
	}
	return true
}

// TestSummary compares what readers find by words with what they find by reading everything: at the last version and at former ones,
// while others write, and in snapshots that are older than what other readers have learned.
func TestSummary(t *testing.T) {
	dir, run := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		options := Options{NoSync: true, HistoryBytes: rapid.SampledFrom([]int64{300, 1 << 20}).Draw(t, "history"), Words: letters}
		s, err := Open(filepath.Join(dir, fmt.Sprintf("%d.db", run)), options)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		var old []chan func(*Snapshot) // snapshots that are still held
		release := func() {
			for _, snapshot := range old {
				close(snapshot)
			}
			old = nil
		}
		defer release()
		write := func(t *rapid.T, n int) {
			put := rapid.IntRange(0, 3).Draw(t, "puts of three") > 0
			first := rapid.IntRange(0, 400).Draw(t, "first")
			err := s.Update(context.Background(), func(tx *Tx) error {
				for i := range n {
					key := fmt.Sprintf("%c/%03d", "ab"[first%2], first+i)
					if !put {
						tx.Delete(key)
						continue
					}
					value := rapid.StringMatching(`[a-f]{0,3}\.?z*`).Draw(t, "value")
					tx.Put(Object{Key: key, Value: []byte(value)})
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) { write(t, rapid.IntRange(1, 4).Draw(t, "writes")) },
			"many":  func(t *rapid.T) { write(t, rapid.IntRange(30, 150).Draw(t, "writes")) },
			"hold": func(t *rapid.T) {
				snapshot := make(chan func(*Snapshot))
				held := make(chan struct{})
				go func() {
					_ = s.View(func(sn *Snapshot) error {
						close(held)
						for read := range snapshot {
							read(sn)
						}
						return nil
					})
				}()
				<-held
				old = append(old, snapshot)
			},
			"release": func(*rapid.T) { release() },
			"compact": func(t *rapid.T) {
				release()
				if _, _, err := s.Compact(context.Background()); err != nil {
					t.Fatal(err)
				}
			},
			"read": func(t *rapid.T) {
				read := func(sn *Snapshot) error { compareByWords(t, sn); return nil }
				if err := s.View(read); err != nil {
					t.Fatal(err)
				}
			},
			"read old": func(t *rapid.T) {
				if len(old) == 0 {
					t.Skip("there is none")
				}
				done := make(chan any)
				rapid.SampledFrom(old).Draw(t, "snapshot") <- func(sn *Snapshot) {
					defer func() { done <- recover() }()
					compareByWords(t, sn)
				}
				if failed := <-done; failed != nil {
					panic(failed)
				}
			},
			"": func(t *rapid.T) { checkSummary(t, s) },
		})
	})
}

func compareByWords(t *rapid.T, sn *Snapshot) {
	prefix := rapid.SampledFrom([]string{"", "a/", "b/", "a/1", "c/"}).Draw(t, "prefix")
	from := rapid.SampledFrom([]string{"", "a/100", "a/2", "b/050", "b/3"}).Draw(t, "from")
	group := rapid.SliceOfN(rapid.Map(rapid.RuneFrom([]rune("abcdefg")), func(r rune) uint32 { return uint32(r) }), 1, 2)
	groups := rapid.SliceOfN(group, 1, 2).Draw(t, "words")
	limit := rapid.SampledFrom([]int{1, 3, 1000}).Draw(t, "limit")
	version := sn.Version()
	if rapid.Bool().Draw(t, "past") {
		version = rapid.Uint64Range(max(FirstVersion, sn.Horizon()), version).Draw(t, "version")
	}
	past, err := sn.At(version, prefix)
	if err != nil {
		t.Fatal(err)
	}
	find := func(w Wanted) (found []string) {
		past.Range(from, w, func(o Object) bool {
			if len(found) == limit {
				return false
			}
			if hasLetters(o.Value, groups) {
				collect(&found)(o)
			}
			return true
		})
		return found
	}
	value := func(value []byte) bool { return hasLetters(value, groups) }
	want := find(Wanted{})
	for _, w := range []Wanted{{Words: groups}, {Words: groups, Value: value}, {Value: value}} {
		if got := find(w); !slices.Equal(got, want) {
			t.Fatalf("at version %d of %d, %q from %q with %v:\n%q\nwant\n%q", version, sn.Version(), prefix, from, groups, got, want)
		}
	}
}

// checkSummary looks at what follows from nothing that readers see.
func checkSummary(t *rapid.T, s *Store) {
	s.summary.mu.RLock()
	defer s.summary.mu.RUnlock()
	for i, st := range s.summary.stretches {
		if i == 0 && st.from != "" || i > 0 && st.from <= s.summary.stretches[i-1].from {
			t.Fatalf("stretch %d begins at %q", i, st.from)
		}
		if !slices.IsSorted(st.words) || len(slices.Compact(slices.Clone(st.words))) != len(st.words) {
			t.Fatalf("stretch at %q has the words %v", st.from, st.words)
		}
		if st.known && st.changes <= 0 {
			t.Fatalf("stretch at %q may change %d times", st.from, st.changes)
		}
	}
}

// TestSummaryLeavesOut has readers find one of many objects and counts what they look at.
func TestSummaryLeavesOut(t *testing.T) {
	const keys = 100 * stretchKeys
	s, err := Open(filepath.Join(t.TempDir(), "db"), Options{NoSync: true, Words: func(value []byte, add func(uint32)) bool {
		for i := range len(value) / 4 {
			add(uint32(value[4*i])<<8 | uint32(value[4*i+1]))
		}
		return true
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put := func(from, to int) {
		t.Helper()
		if err := s.Update(context.Background(), func(tx *Tx) error {
			for i := from; i < to; i++ {
				tx.Put(Object{Key: fmt.Sprintf("pods/%05d", i), Value: []byte{byte(i >> 8), byte(i), 0, 0}})
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(word uint32) (looked, found int) {
		t.Helper()
		if err := s.View(func(sn *Snapshot) error {
			past, err := sn.At(sn.Version(), "pods/")
			if err != nil {
				return err
			}
			past.Range("", Wanted{Words: [][]uint32{{word}}, Value: func(value []byte) bool {
				looked++
				return value[0] == byte(word>>8) && value[1] == byte(word)
			}}, func(Object) bool { found++; return true })
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return looked, found
	}
	want := func(what string, word uint32, looked, found int) {
		t.Helper()
		if l, f := read(word); l > looked || f != found {
			t.Errorf("%s: looked at %d to find %d, want %d for %d", what, l, f, looked, found)
		}
	}
	put(0, keys)
	want("nobody has read before", 5, keys, 1)
	want("after that", 7, stretchKeys, 1)
	want("in the middle", keys/2, stretchKeys, 1)
	want("that nobody has", keys+9, 0, 0)
	put(100, 110)
	want("changed without other words", 105, stretchKeys, 1)
	put(keys, keys+stretchKeys/2)
	want("some are new", keys+1, 2*stretchKeys, 1)
	put(keys+stretchKeys/2, 2*keys)
	want("as many again are new", 3, keys+2*stretchKeys, 1)
	want("after that", 2*keys-1, stretchKeys, 1)
	if err := s.Update(context.Background(), func(tx *Tx) error {
		for i := range 2 * keys {
			tx.Delete(fmt.Sprintf("pods/%05d", i))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want("all are gone", 5, 0, 0)
	if n := len(s.summary.stretches); n > 3 {
		t.Errorf("there are %d stretches of nothing", n)
	}
}

// TestSummaryBesideWriters has readers look for what a writer has written before they began.
func TestSummaryBesideWriters(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "db"), Options{NoSync: true, Words: letters})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const writers, each = 4, 400
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			letter := string(rune('a' + w))
			for i := range each {
				key := fmt.Sprintf("k/%04d-%d", (i*37)%each, w)
				if err := s.Update(context.Background(), func(tx *Tx) error {
					tx.Put(Object{Key: key, Value: []byte(letter + ".")})
					return nil
				}); err != nil {
					t.Error(err)
					return
				}
				found := 0
				if err := s.View(func(sn *Snapshot) error {
					past, err := sn.At(sn.Version(), "k/")
					if err != nil {
						return err
					}
					past.Range("", Wanted{Words: [][]uint32{{uint32(letter[0])}}}, func(o Object) bool {
						if string(o.Value) == letter+"." {
							found++
						}
						return true
					})
					return nil
				}); err != nil {
					t.Error(err)
				}
				if found != i+1 {
					t.Errorf("found %d of what %s has written, want %d", found, letter, i+1)
					return
				}
			}
		})
	}
	all.Wait()
}

// TestSummaryOfOldSnapshots has a reader hold a snapshot while others write and read.
func TestSummaryOfOldSnapshots(t *testing.T) {
	find := func(t *testing.T, sn *Snapshot, letter rune) (keys []string) {
		t.Helper()
		past, err := sn.At(sn.Version(), "k/")
		if err != nil {
			t.Fatal(err)
		}
		past.Range("", Wanted{Words: [][]uint32{{uint32(letter)}}}, func(o Object) bool {
			if strings.ContainsRune(string(o.Value), letter) {
				keys = append(keys, o.Key)
			}
			return true
		})
		return keys
	}
	for name, c := range map[string]struct {
		before, then  map[string]string // values by key, empty: deleted
		reads         bool              // somebody reads then
		letter        rune
		held, finally []string
	}{
		"what is gone since is found": {
			before: map[string]string{"k/1": "a.", "k/2": "b."}, then: map[string]string{"k/1": ""}, reads: true,
			letter: 'a', held: []string{"k/1"},
		},
		"what was changed since is found by what it was": {
			before: map[string]string{"k/1": "a."}, then: map[string]string{"k/1": "b."}, reads: true,
			letter: 'a', held: []string{"k/1"},
		},
		"all that there was is gone": {
			before: map[string]string{"k/1": "a.", "k/2": "a."}, then: map[string]string{"k/1": "", "k/2": ""}, reads: true,
			letter: 'a', held: []string{"k/1", "k/2"},
		},
		"what is new is found by those who come later": {
			before: map[string]string{"k/1": "b."}, then: map[string]string{"k/2": "a."},
			letter: 'a', finally: []string{"k/2"},
		},
		"so is what was changed": {
			before: map[string]string{"k/1": "b."}, then: map[string]string{"k/1": "a."},
			letter: 'a', finally: []string{"k/1"},
		},
		"and what is new where nothing was": {
			before: map[string]string{"l/1": "b."}, then: map[string]string{"k/1": "a."},
			letter: 'a', finally: []string{"k/1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(filepath.Join(t.TempDir(), "db"), Options{NoSync: true, Words: letters})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			write := func(values map[string]string) {
				if err := s.Update(context.Background(), func(tx *Tx) error {
					for key, value := range values {
						if value == "" {
							tx.Delete(key)
						} else {
							tx.Put(Object{Key: key, Value: []byte(value)})
						}
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
			view := func() (keys []string) {
				if err := s.View(func(sn *Snapshot) error { keys = find(t, sn, c.letter); return nil }); err != nil {
					t.Error(err)
				}
				return keys
			}
			write(c.before)
			var held []string
			if err := s.View(func(sn *Snapshot) error {
				var others sync.WaitGroup
				others.Go(func() {
					write(c.then)
					if c.reads {
						view()
					}
				})
				others.Wait()
				held = find(t, sn, c.letter)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(held, c.held) {
				t.Errorf("the held snapshot has %q, want %q", held, c.held)
			}
			for range 2 {
				if got := view(); !slices.Equal(got, c.finally) {
					t.Errorf("then %q are found, want %q", got, c.finally)
				}
			}
		})
	}
}
