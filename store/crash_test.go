package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// crashEnv makes the test binary a writer that waits to be killed: it names the database.
const crashEnv = "JOBD_STORE_CRASH_TEST"

const crashWriters = 4

func TestMain(m *testing.M) {
	if path := os.Getenv(crashEnv); path != "" {
		fmt.Fprintln(os.Stderr, crashWriter(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// crashWriter writes pairs of objects, each pair in a transaction, from several goroutines, and says on its standard
// output which are durable: "writer number version". Meanwhile it compacts the database again and again, with pauses, since
// the history is not cut while it is copied.
func crashWriter(path string) error {
	s, err := Open(path, Options{HistoryBytes: 20_000})
	if err != nil {
		return err
	}
	errs := make(chan error)
	for w := range crashWriters {
		go func() {
			for n := crashNumber(s, w) + 1; ; n++ {
				version, err := putPair(s, w, n)
				if err != nil {
					errs <- err
					return
				}
				fmt.Printf("%d %d %d\n", w, n, version)
			}
		}()
	}
	for {
		select {
		case err := <-errs:
			return err
		case <-time.After(time.Duration(rand.IntN(20)) * time.Millisecond):
			if _, _, err := s.Compact(context.Background()); err != nil {
				return err
			}
		}
	}
}

func pairKey(side string, writer int) string { return fmt.Sprintf("%s/%d", side, writer) }

// putPair writes the same number to two keys, and every third time removes them first.
func putPair(s *Store, writer, n int) (version uint64, err error) {
	value := []byte(fmt.Sprintf("%d %s", n, strings.Repeat("x", n%2000)))
	err = s.Update(context.Background(), func(tx *Tx) error {
		for _, side := range []string{"left", "right"} {
			key := pairKey(side, writer)
			if n%3 == 0 {
				tx.Delete(key)
			}
			version = tx.Put(Object{Key: key, Owners: []string{strconv.Itoa(n % 7)}, Value: value})
		}
		return nil
	})
	return version, err
}

func crashNumber(s *Store, writer int) (n int) {
	err := s.View(func(sn *Snapshot) error {
		if o, ok := sn.Get(pairKey("left", writer)); ok {
			_, err := fmt.Sscan(string(o.Value), &n)
			return err
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	return n
}

// TestKilledAtAnyMoment kills a writing process again and again. What it reported as durable is there, nothing is there
// by half, and no version is assigned twice.
func TestKilledAtAnyMoment(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a few seconds")
	}
	path := filepath.Join(t.TempDir(), "jobd.db")
	var acknowledged [crashWriters]int
	var last uint64 // highest version that a process spoke of
	for round := range 12 {
		lines := killWriter(t, path, time.Duration(5+rand.IntN(150))*time.Millisecond)
		before := last
		for _, line := range lines {
			var w, n int
			var version uint64
			if _, err := fmt.Sscan(line, &w, &n, &version); err != nil {
				t.Fatalf("the writer said %q", line)
			}
			if version <= before {
				t.Errorf("round %d: version %d was given before, the last one was %d", round, version, before)
			}
			acknowledged[w] = n
			last = max(last, version)
		}
		s := openAt(t, path, Options{HistoryBytes: 20_000})
		if s.Version() < last {
			t.Errorf("round %d: version %d after %d was durable", round, s.Version(), last)
		}
		last = s.Version() // of transactions too that were written and not told
		for w := range crashWriters {
			acknowledged[w] = checkPair(t, s, w, acknowledged[w])
		}
		mustCheck(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("versions up to %d, writers at %v", last, acknowledged)
}

// checkPair expects the pair that was acknowledged, or the next: the writer may have died before it could say so. It
// returns what is there.
func checkPair(t *testing.T, s *Store, writer, acknowledged int) int {
	t.Helper()
	n := crashNumber(s, writer)
	if n != acknowledged && n != acknowledged+1 {
		t.Errorf("writer %d: %d is there, %d was durable", writer, n, acknowledged)
	}
	left, _ := get(t, s, pairKey("left", writer))
	right, _ := get(t, s, pairKey("right", writer))
	if left != right {
		t.Errorf("writer %d: half a transaction is there: %.10q and %.10q", writer, left, right)
	}
	return n
}

// killWriter runs a writer, kills it after a while, and returns its whole lines.
func killWriter(t *testing.T, path string, after time.Duration) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashEnv+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	var lines []string
	for {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(lines) == 0 {
			time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the writer was not killed: %v", err)
	}
	return lines
}
