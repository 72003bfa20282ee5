package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCursorWaitsForAChangeThatConcernsIt(t *testing.T) {
	s := openTest(t, Options{})
	c := s.Cursor(s.Version(), "pods/")
	got := make(chan []string)
	go func() {
		changes, _, err := c.Next(context.Background(), 10)
		if err != nil {
			t.Error(err)
		}
		got <- describe(changes)
	}()
	var last uint64
	for i := range 20 {
		last = put(t, s, "jobs/1", fmt.Sprint(i))
	}
	// The reader of pods has nothing to do, and is nevertheless not left behind.
	for c.At() < last {
		runtime.Gosched()
	}
	put(t, s, "pods/1", "x")
	if lines := <-got; !slices.Equal(lines, []string{"22 put pods/1=x@22"}) {
		t.Error(lines)
	}
}

func TestAnIdleCursorIsNotCutOff(t *testing.T) {
	s := openTest(t, Options{HistoryBytes: 1})
	c := s.Cursor(s.Version(), "pods/")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { _, _, err := c.Next(ctx, 1); ended <- err }()
	idle := func() bool {
		s.waiting.mu.Lock()
		defer s.waiting.mu.Unlock()
		return s.waiting.cursors[c] != nil
	}
	for !idle() {
		runtime.Gosched()
	}
	var last uint64
	for i := range 50 {
		last = put(t, s, "jobs/1", fmt.Sprint(i))
	}
	for c.At() < last {
		select {
		case err := <-ended:
			t.Fatal(err)
		default:
			runtime.Gosched()
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	put(t, s, "pods/1", "x")
	if changes, _, err := c.Next(t.Context(), 1); err != nil || len(changes) != 1 {
		t.Errorf("%v, %v", changes, err)
	}
}

func TestASlowCursorIsToldThatItsHistoryIsGone(t *testing.T) {
	s := openTest(t, Options{HistoryBytes: 1000})
	c := s.Cursor(s.Version(), "")
	for i := range 100 {
		put(t, s, "a", fmt.Sprintf("%0100d", i))
	}
	if _, _, err := c.Next(t.Context(), 10); !errors.Is(err, ErrCompacted) {
		t.Error(err)
	}
	st, err := s.Stats()
	if err != nil || st.HistoryBytes > 1200 || st.Horizon < 80 {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestACursorGoesOnAfterReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobd.db")
	s := openAt(t, path, Options{})
	put(t, s, "a", "1")
	_, at, err := s.Cursor(FirstVersion, "").Next(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", "2")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path, Options{})
	changes, _, err := s.Cursor(at, "").Next(t.Context(), 10)
	if err != nil || !slices.Equal(describe(changes), []string{"3 put a=2@3 was 1@2"}) {
		t.Errorf("%v, %v", describe(changes), err)
	}
}

func TestACursorOfTheFutureWaitsForIt(t *testing.T) {
	s := openTest(t, Options{})
	c := s.Cursor(s.Version()+2, "")
	for i := range 3 {
		put(t, s, "a", fmt.Sprint(i))
	}
	changes, _, err := c.Next(t.Context(), 10)
	if err != nil || !slices.Equal(describe(changes), []string{"4 put a=2@4 was 1@3"}) {
		t.Errorf("%v, %v", describe(changes), err)
	}
}

func TestACursorReadsALongLogInPieces(t *testing.T) {
	s := openTest(t, Options{NoSync: true})
	const puts = 2*maxScan + 500
	for i := 0; i < puts; i += 500 {
		err := s.Update(t.Context(), func(tx *Tx) error {
			for j := range min(500, puts-i) {
				tx.Put(Object{Key: fmt.Sprintf("a/%08d", i+j)})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, "b", "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if changes, _, err := s.Cursor(FirstVersion, "b").Next(ctx, 1); err != nil || len(changes) != 1 {
		t.Errorf("%v, %v", changes, err)
	}
	c, n := s.Cursor(FirstVersion, "a/"), 0
	for n < puts {
		changes, _, err := c.Next(ctx, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if n += len(changes); len(changes) > maxScan {
			t.Fatalf("%d changes at once", len(changes))
		}
	}
}

// TestASparingCursor asks before it reads what is large, and reads that alone.
func TestASparingCursor(t *testing.T) {
	s := openTest(t, Options{})
	begin := s.Version()
	sizes := []int{10, 20, 500, 10, 500, 90, 90}
	for i, size := range sizes {
		put(t, s, fmt.Sprint(i), strings.Repeat("x", size))
	}
	var asked []int
	refused := errors.New("refused")
	c := s.Cursor(begin, "").Sparing(100, func(n int) error {
		if asked = append(asked, n); len(asked) == 2 {
			return refused
		}
		return nil
	})
	var got []string
	for n := 0; n < len(sizes); {
		changes, _, err := c.Next(t.Context(), 100)
		if err != nil {
			if !errors.Is(err, refused) {
				t.Fatal(err)
			}
			got = append(got, "refused")
			continue
		}
		n += len(changes)
		got = append(got, fmt.Sprint(len(changes)))
	}
	if want := "2 1 1 refused 1 1 1"; strings.Join(got, " ") != want || !slices.Equal(asked, []int{500, 500, 500}) {
		t.Errorf("%v changes at once, want %s; asked for %v", got, want, asked)
	}
}

// TestSparingCursorsTakeTurns: however many such cursors a change wakes, few of them read at a time, and nobody else waits for them.
func TestSparingCursorsTakeTurns(t *testing.T) {
	s := openTest(t, Options{})
	begin := s.Version()
	put(t, s, "pods/1", "x")
	for range cap(s.turns) {
		s.turns <- struct{}{}
	}
	read := make(chan error)
	go func() {
		_, _, err := s.Cursor(begin, "").Sparing(100, func(int) error { return nil }).Next(t.Context(), 1)
		read <- err
	}()
	if changes, _, err := s.Cursor(begin, "").Next(t.Context(), 1); err != nil || len(changes) != 1 {
		t.Errorf("another cursor reads %v, %v", changes, err)
	}
	put(t, s, "pods/1", "y")
	select {
	case err := <-read:
		t.Errorf("it reads out of turn, %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	<-s.turns
	if err := <-read; err != nil {
		t.Error(err)
	}
}

func TestACursorOfOneMoreObject(t *testing.T) {
	s := openTest(t, Options{})
	c := s.Cursor(s.Version(), "pods/").Also("jobs/1")
	put(t, s, "jobs/1", "a")
	put(t, s, "jobs/11", "b")
	put(t, s, "pods/1", "c")
	changes, _, err := c.Next(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	// It is woken by that too.
	got := make(chan []string)
	go func() {
		changes, _, err := c.Next(context.Background(), 10)
		if err != nil {
			t.Error(err)
		}
		got <- describe(changes)
	}()
	put(t, s, "jobs/12", "d")
	put(t, s, "jobs/1", "e")
	if lines := append(describe(changes), <-got...); !slices.Equal(lines, []string{
		"2 put jobs/1=a@2", "4 put pods/1=c@4", "6 put jobs/1=e@6 was a@2",
	}) {
		t.Error(lines)
	}
}
