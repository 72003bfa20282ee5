package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// forged is a database that somebody has written who knows the format.
type forged struct {
	data []byte
	page int
}

func (f forged) at(id uint64) []byte { return f.data[int(id)*f.page:] }

func (f forged) meta() []byte {
	a, b := f.at(0), f.at(1)
	if u64(a[pageHead+48:]) > u64(b[pageHead+48:]) {
		return a
	}
	return b
}

// of returns the pages of a kind that are in use.
func (f forged) of(t *testing.T, kind uint16) (pages []uint64) {
	t.Helper()
	var visit func(id uint64)
	visit = func(id uint64) {
		p := f.at(id)
		if u16(p[8:]) == kind {
			pages = append(pages, id)
		}
		for i := range int(u16(p[10:])) {
			e := p[pageHead+i*elementSize:]
			if u16(p[8:]) == pageBranch {
				visit(u64(e[8:]))
			} else if u32(e) == elementBucket {
				if root := u64(e[u32(e[4:])+u32(e[8:]):]); root != 0 {
					visit(root)
				}
			}
		}
	}
	visit(u64(f.meta()[metaRoot:]))
	if len(pages) == 0 {
		t.Fatalf("there is no page of kind %d", kind)
	}
	return pages
}

// sign gives the page of metadata the sum that bolt wants.
func (f forged) sign() { sign(f.meta()) }

func sign(page []byte) {
	m := page[pageHead:]
	sum := fnv.New64a()
	sum.Write(m[:56])
	binary.NativeEndian.PutUint64(m[56:], sum.Sum64())
}

// ends opens a database and checks it, and fails if that does not end.
func ends(t *testing.T, data []byte) (opened bool, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobd.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var s *Store
		if s, err = Open(path, Options{NoSync: true}); err != nil {
			return
		}
		opened = true
		err = errors.Join(s.Check(), s.Close())
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
	return opened, err
}

// A database from somebody else, put in the place of one's own, is refused, and nobody waits for it.
func TestForgedDatabases(t *testing.T) {
	path, _ := damaged(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	put16, put32, put64 := binary.NativeEndian.PutUint16, binary.NativeEndian.PutUint32, binary.NativeEndian.PutUint64
	if opened, err := ends(t, whole); !opened || err != nil {
		t.Fatalf("as it was: %v", err)
	}
	for name, forge := range map[string]func(t *testing.T, f forged){
		"a branch below itself": func(t *testing.T, f forged) {
			b := f.of(t, pageBranch)[0]
			put64(f.at(b)[pageHead+8:], b)
		},
		"a branch that ends in a circle": func(t *testing.T, f forged) {
			b := f.of(t, pageBranch)[0]
			count := int(u16(f.at(b)[10:]))
			put64(f.at(b)[pageHead+(count-1)*elementSize+8:], b)
		},
		"a page twice": func(t *testing.T, f forged) {
			b := f.at(f.of(t, pageBranch)[0])
			put64(b[pageHead+8:], u64(b[pageHead+elementSize+8:]))
		},
		"the metadata as a leaf":              func(t *testing.T, f forged) { put64(f.at(f.of(t, pageBranch)[0])[pageHead+8:], 1) },
		"a page beyond the end":               func(t *testing.T, f forged) { put64(f.at(f.of(t, pageBranch)[0])[pageHead+8:], 1<<40) },
		"a page that is as large as the file": func(t *testing.T, f forged) { put32(f.at(f.of(t, pageLeaf)[1])[12:], 1<<31) },
		"a branch without elements":           func(t *testing.T, f forged) { put16(f.at(f.of(t, pageBranch)[0])[10:], 0) },
		"a leaf of 65535 elements":            func(t *testing.T, f forged) { put16(f.at(f.of(t, pageLeaf)[1])[10:], 0xffff) },
		"a branch of 65535 elements":          func(t *testing.T, f forged) { put16(f.at(f.of(t, pageBranch)[0])[10:], 0xffff) },
		"a page of all kinds":                 func(t *testing.T, f forged) { put16(f.at(f.of(t, pageLeaf)[1])[8:], 0xffff) },
		"a key far away":                      func(t *testing.T, f forged) { put32(f.at(f.of(t, pageLeaf)[1])[pageHead+4:], 1<<31) },
		"keys that are not in order": func(t *testing.T, f forged) {
			b := f.at(f.of(t, pageBranch)[0])
			first := append([]byte(nil), b[pageHead:pageHead+elementSize]...)
			second := b[pageHead+elementSize : pageHead+2*elementSize]
			put32(b[pageHead:], u32(second)+elementSize)
			put32(second, u32(first)-elementSize)
			put32(b[pageHead+4:], u32(second[4:]))
			put32(second[4:], u32(first[4:]))
		},
		"a key of two gigabytes":            func(t *testing.T, f forged) { put32(f.at(f.of(t, pageLeaf)[1])[pageHead+8:], 1<<31) },
		"a value of four gigabytes":         func(t *testing.T, f forged) { put32(f.at(f.of(t, pageLeaf)[1])[pageHead+12:], 1<<32-1) },
		"a key of a branch far away":        func(t *testing.T, f forged) { put32(f.at(f.of(t, pageBranch)[0])[pageHead:], 1<<31) },
		"a bucket in a bucket":              func(t *testing.T, f forged) { put32(f.at(f.of(t, pageLeaf)[1])[pageHead:], elementBucket) },
		"the root nowhere":                  func(_ *testing.T, f forged) { put64(f.meta()[metaRoot:], 1<<62); f.sign() },
		"a list of free pages that are not": func(t *testing.T, f forged) { put64(f.meta()[metaFreelist:], f.of(t, pageLeaf)[1]); f.sign() },
		"pages as large as the file": func(_ *testing.T, f forged) {
			for id := range uint64(2) {
				put32(f.at(id)[pageHead+8:], 1<<31)
				sign(f.at(id))
			}
		},
		"a list of free pages in the void": func(_ *testing.T, f forged) { put64(f.meta()[metaFreelist:], 1<<50); f.sign() },
	} {
		t.Run(name, func(t *testing.T) {
			f := forged{append([]byte(nil), whole...), os.Getpagesize()}
			forge(t, f)
			if opened, err := ends(t, f.data); opened || !errors.Is(err, ErrCorrupt) {
				t.Errorf("opened: %v, %v", opened, err)
			} else {
				t.Log(err)
			}
		})
	}
}

// Whatever a few numbers in the pages are, opening ends, and so does the check of what can be opened.
func TestDatabasesWithOddNumbers(t *testing.T) {
	path, _ := damaged(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	used := len(strings.TrimRight(string(whole), "\x00"))
	odd := []uint64{0, 1, 2, 3, 7, 255, 0xffff, 1 << 31, 1<<32 - 1, 1 << 63, 1<<64 - 1}
	refused, found, sound := 0, 0, 0
	rounds := 300
	if testing.Short() {
		rounds = 50
	}
	for range rounds {
		data := append([]byte(nil), whole...)
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		for range 1 + random.IntN(4) {
			at := random.IntN(used/page)*page + random.IntN(10)*8 // headers, and the first elements
			value := odd[random.IntN(len(odd))]
			switch random.IntN(3) {
			case 0:
				binary.NativeEndian.PutUint64(data[at:], value)
			case 1:
				binary.NativeEndian.PutUint32(data[at+4*random.IntN(2):], uint32(value))
			default:
				binary.NativeEndian.PutUint16(data[at+2*random.IntN(4):], uint16(value))
			}
		}
		(forged{data, page}).sign()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			switch opened, err := ends(t, data); {
			case err == nil:
				sound++
			case !errors.Is(err, ErrCorrupt):
				if format := (*FormatError)(nil); !errors.As(err, &format) {
					t.Error(err)
				}
			case opened:
				found++
			default:
				refused++
			}
		})
	}
	t.Logf("%d are refused, %d found by the check, %d sound", refused, found, sound)
}
