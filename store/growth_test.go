package store

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// What is free is used again, also where values of very different sizes come and go: the file stays as large as it was once
// the history had its size.
func TestTheFileDoesNotGrowForever(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a few seconds")
	}
	s := openTest(t, Options{HistoryBytes: 8 << 20, NoSync: true})
	r := rand.New(rand.NewPCG(1, 2))
	value := make([]byte, 80_000)
	size := func() int {
		switch n := r.IntN(400); {
		case n < 2:
			return 20_000 + r.IntN(60_000)
		case n < 20:
			return 4_000 + r.IntN(8_000)
		default:
			return 1_200 + r.IntN(1_500)
		}
	}
	var filled int64
	const pods = 24_000
	for i := range pods {
		err := s.Update(t.Context(), func(tx *Tx) error {
			for k := range 6 {
				o := Object{Key: fmt.Sprintf("pods/%d", (i*7919+k)%1000), Value: value[:size()]}
				if k == 5 {
					tx.Delete(o.Key)
					continue
				}
				tx.Put(o)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if i == pods/4 {
			filled = usedSize(s.bolt)
		}
	}
	if used := usedSize(s.bolt); used > filled+filled/10 {
		t.Errorf("the file grew from %d to %d kB", filled>>10, used>>10)
	} else {
		t.Logf("the file has %d kB, and had %d", used>>10, filled>>10)
	}
}
