package vm

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

func TestACutTakesOnlyWhatWasNotFlushed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, make([]byte, 64*sector), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := openDisk(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	random := rand.New(rand.NewPCG(1, 2))
	flushed := make([]byte, 64*sector)
	outcomes := map[int]bool{}
	for round := byte(1); round < 100; round++ {
		for range 5 {
			at := int64(random.IntN(60)) * sector
			data := bytes.Repeat([]byte{round}, (1+random.IntN(4))*sector)
			if err := d.write(at, data); err != nil {
				t.Fatal(err)
			}
			copy(flushed[at:], data)
		}
		d.flush()
		at := int64(random.IntN(60)) * sector
		if err := d.write(at, bytes.Repeat([]byte{200}, 4*sector)); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Cut(random); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		kept := 0
		for i := at; i < at+4*sector; i++ {
			if got[i] == 200 {
				kept++
				flushed[i] = 200
			}
		}
		outcomes[kept] = true
		if !bytes.Equal(got, flushed) {
			t.Fatalf("round %d: what was flushed is not there", round)
		}
	}
	if len(outcomes) < 3 {
		t.Errorf("the unflushed write was always %v", outcomes)
	}
}
