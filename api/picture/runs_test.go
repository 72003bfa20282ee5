package picture

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func TestRuns(t *testing.T) {
	for symbols, want := range map[string]string{"": "", "w": "w", "ww": "w2", "wsss": "ws3", "ssssssssssss-": "s12-"} {
		if got := Runs([]byte(symbols)); got != want {
			t.Errorf("%q: got %q, want %q", symbols, got, want)
		}
	}
	for _, runs := range []string{"3w", "w99", "w99999999999999999999"} {
		if got, err := Symbols(runs, 10); err == nil {
			t.Errorf("%q is read as %q", runs, got)
		}
	}
}

func FuzzRuns(f *testing.F) {
	f.Add([]byte("wwwsss"), "w3s3")
	f.Fuzz(func(t *testing.T, symbols []byte, runs string) {
		_, _ = Symbols(runs, 1000)
		if bytes.ContainsAny(symbols, "0123456789") {
			return
		}
		if got, err := Symbols(Runs(symbols), len(symbols)); err != nil || !bytes.Equal(got, symbols) {
			t.Fatalf("%q became %q, %v", symbols, got, err)
		}
	})
}

// Each detail has a symbol of its own, which JSON and HTML leave as it is.
func TestDetails(t *testing.T) {
	seen := map[byte]bool{}
	for level := range levels {
		for retries := range maxRetries + 1 {
			symbol := Detail(level, retries)
			if l, r := Undetail(symbol); l != level || r != retries || seen[symbol] {
				t.Errorf("%q is %d and %d, and was made from %d and %d", symbol, l, r, level, retries)
			}
			seen[symbol] = true
		}
	}
	for _, c := range "0123456789\"\\<>&'" {
		if seen[byte(c)] {
			t.Errorf("%q is among the symbols", c)
		}
	}
}

// A longer duration has no lower level, and the longest has the highest.
func TestLevel(t *testing.T) {
	for range 1000 {
		longest := rand.Int64N(1<<30) + 1
		a, b := rand.Int64N(longest+1), rand.Int64N(longest+1)
		if Level(min(a, b), longest) > Level(max(a, b), longest) || Level(longest, longest) != levels-1 || Level(0, longest) != 1 {
			t.Fatalf("of %d: %d has level %d, %d has %d", longest, a, Level(a, longest), b, Level(b, longest))
		}
	}
}
