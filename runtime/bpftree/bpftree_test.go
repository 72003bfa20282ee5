package bpftree

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/net/bpf"
)

const (
	amd64 = 0xc000003e
	i386  = 0x40000003
	arm64 = 0xc00000b7

	allow = 0x7fff0000
	errno = 0x00050000
	kill  = 0x80000000
)

// A rule allows, or whatever, a system call whose arguments pass all of its conditions.
type rule struct {
	number     uint32
	conditions []condition
	action     uint32
}

type condition struct {
	offset, mask uint32
	test         bpf.JumpTest
	k            uint32
}

// linear compiles rules as libseccomp does: for each architecture one comparison after the other.
func linear(rules map[uint32][]rule, archs []uint32, otherwise uint32) []byte {
	var code []bpf.Instruction
	for _, arch := range archs {
		var body []bpf.Instruction
		body = append(body, bpf.LoadAbsolute{Off: offsetNumber, Size: 4})
		for _, r := range rules[arch] {
			var match []bpf.Instruction
			for _, c := range r.conditions {
				match = append(match, bpf.LoadAbsolute{Off: c.offset, Size: 4})
				if c.mask != everyBit {
					match = append(match, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: c.mask})
				}
				match = append(match, bpf.JumpIf{Cond: c.test, Val: c.k, SkipTrue: 1}, nil)
			}
			match = append(match, bpf.RetConstant{Val: r.action})
			if len(r.conditions) > 0 {
				match = append(match, bpf.LoadAbsolute{Off: offsetNumber, Size: 4})
			}
			for at, i := range match {
				if i == nil { // to the reload of the number, past the value
					match[at] = bpf.Jump{Skip: uint32(len(match) - 2 - at)}
				}
			}
			body = append(body, bpf.JumpIf{Cond: bpf.JumpEqual, Val: r.number, SkipFalse: uint8(len(match))})
			body = append(body, match...)
		}
		body = append(body, bpf.RetConstant{Val: otherwise})
		code = append(code, bpf.LoadAbsolute{Off: offsetArch, Size: 4}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1},
			bpf.Jump{Skip: uint32(len(body))})
		code = append(code, body...)
	}
	code = append(code, bpf.RetConstant{Val: kill})
	raw, err := bpf.Assemble(code)
	if err != nil {
		panic(err)
	}
	return encode(raw)
}

func randomRules(r *rand.Rand) []byte {
	archs := []uint32{amd64, i386, arm64}[:1+r.IntN(3)]
	rules := map[uint32][]rule{}
	for _, arch := range archs {
		numbers := r.Perm(460)[:r.IntN(350)]
		if r.IntN(2) == 0 {
			slices.Sort(numbers)
		}
		for _, n := range numbers {
			of := rule{number: uint32(n), action: []uint32{allow, allow, allow, errno | 38}[r.IntN(4)]}
			if arch == amd64 && r.IntN(5) == 0 {
				of.number |= 0x40000000 // of x32
			}
			for range max(0, r.IntN(12)-8) {
				of.conditions = append(of.conditions, condition{
					offset: 16 + 4*uint32(r.IntN(12)), mask: []uint32{everyBit, 0x7e020000, 0xff}[r.IntN(3)],
					test: []bpf.JumpTest{bpf.JumpEqual, bpf.JumpNotEqual, bpf.JumpGreaterThan, bpf.JumpLessOrEqual, bpf.JumpBitsSet}[r.IntN(5)],
					k:    []uint32{0, 8, 0x20000, 0xffffffff, r.Uint32()}[r.IntN(5)],
				})
			}
			rules[arch] = append(rules[arch], of)
			for range max(0, r.IntN(100)-96) { // for a bit of the same word each
				bit := uint32(1) << r.IntN(32)
				of.conditions = []condition{{offset: 24, mask: bit, test: bpf.JumpEqual, k: []uint32{0, bit, 0x100}[r.IntN(3)]}}
				rules[arch] = append(rules[arch], of)
			}
		}
	}
	return linear(rules, archs, errno|1)
}

func TestItDecidesTheSame(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		filter := randomRules(r)
		rewritten, err := Rewrite(filter)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := Equal(filter, rewritten); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		again, err := Rewrite(rewritten)
		if err != nil {
			t.Fatalf("seed %d: its own result: %v", seed, err)
		}
		if err := Equal(filter, again); err != nil {
			t.Fatalf("seed %d: rewritten twice: %v", seed, err)
		}
	}
}

// The kernel runs a new filter for each number, with nothing known of the arguments.
func TestItIsShort(t *testing.T) {
	var rules []rule
	for n := range uint32(460) {
		if n%3 > 0 {
			rules = append(rules, rule{number: n, action: allow})
		}
	}
	filter := linear(map[uint32][]rule{amd64: rules, i386: rules}, []uint32{amd64, i386}, errno|1)
	rewritten, err := Rewrite(filter)
	if err != nil {
		t.Fatal(err)
	}
	if err := Equal(filter, rewritten); err != nil {
		t.Fatal(err)
	}
	var before, after int
	for n := range uint32(460) {
		data := [16]uint32{n, amd64}
		before += lengthOf(t, filter, &data)
		after += lengthOf(t, rewritten, &data)
	}
	t.Logf("%d instructions instead of %d; on average %d instead of %d of them are run", len(rewritten)/size, len(filter)/size,
		after/460, before/460)
	if after/460 > 16 {
		t.Errorf("%d instructions are run", after/460)
	}
}

// All values but those that have some bits in common are one test, as many rules as there are.
func TestRulesForBitsAreOneTest(t *testing.T) {
	const mask, but = 0xffffff00, 0x4c00
	var rules []rule
	for bit := uint32(1) << 31; bit&mask != 0; bit >>= 1 {
		rules = append(rules, rule{16, []condition{{offset: 24, mask: bit, test: bpf.JumpEqual, k: ^uint32(but) & bit}}, allow})
	}
	filter := linear(map[uint32][]rule{amd64: rules}, []uint32{amd64}, errno|1)
	rewritten, err := Rewrite(filter)
	if err != nil {
		t.Fatal(err)
	}
	if err := Equal(filter, rewritten); err != nil {
		t.Fatal(err)
	}
	if n := len(rewritten) / size; n > 16 {
		t.Errorf("%d instructions", n)
	}
	code, err := decode(rewritten)
	if err != nil {
		t.Fatal(err)
	}
	for request, want := range map[uint32]uint32{but: errno | 1, but | 0xff: errno | 1, but - 1: allow, but + 0x100: allow, but | 1<<31: allow, 0: allow} {
		if got, _, err := run(code, &[words]uint32{0: 16, 1: amd64, 6: request}); got != want || err != nil {
			t.Errorf("%x: %x, %v; want %x", request, got, err, want)
		}
	}
}

func lengthOf(t *testing.T, filter []byte, data *[16]uint32) (steps int) {
	t.Helper()
	code, err := decode(filter)
	if err != nil {
		t.Fatal(err)
	}
	var held word
	for pc := 0; ; steps++ {
		s, err := stepAt(code, pc, held)
		switch {
		case err != nil:
			t.Fatal(err)
		case s.kind == stepReturn:
			return steps
		case s.kind == stepOn:
			pc, held = s.yes, s.held
		case holds(s.test, held.of(data), s.k):
			pc = s.yes
		default:
			pc = s.no
		}
	}
}

func TestUnsupported(t *testing.T) {
	for name, code := range map[string][]bpf.Instruction{
		"no instruction":        nil,
		"no value":              {bpf.LoadAbsolute{Off: 0, Size: 4}},
		"a jump behind the end": {bpf.Jump{Skip: 7}, bpf.RetConstant{}},
		"the other register":    {bpf.TAX{}, bpf.RetConstant{}},
		"the accumulator":       {bpf.LoadAbsolute{Off: 0, Size: 4}, bpf.RetA{}},
		"scratch memory":        {bpf.LoadScratch{}, bpf.RetConstant{}},
		"bits of the number": {
			bpf.LoadAbsolute{Off: 0, Size: 4}, bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 1, SkipTrue: 1}, bpf.RetConstant{},
			bpf.RetConstant{Val: 1},
		},
		"a part of the number": {
			bpf.LoadAbsolute{Off: 0, Size: 4}, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 1}, bpf.JumpIf{Val: 1, SkipTrue: 1},
			bpf.RetConstant{}, bpf.RetConstant{Val: 1},
		},
		"order of architectures": {
			bpf.LoadAbsolute{Off: 4, Size: 4}, bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: 9, SkipTrue: 1}, bpf.RetConstant{},
			bpf.RetConstant{Val: 1},
		},
		"a byte":     {bpf.LoadAbsolute{Off: 0, Size: 1}, bpf.RetConstant{}},
		"arithmetic": {bpf.LoadAbsolute{Off: 16, Size: 4}, bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: 1}, bpf.RetConstant{}},
	} {
		raw, err := bpf.Assemble(code)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if out, err := Rewrite(encode(raw)); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v, %v", name, out, err)
		}
	}
	if _, err := Rewrite(make([]byte, 12)); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
}

// FuzzRewrite: whatever is taken decides the same, on all that the two filters tell apart.
func FuzzRewrite(f *testing.F) {
	f.Add(randomRules(rand.New(rand.NewPCG(3, 3))))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, filter []byte) {
		if len(filter) > 200*size {
			return
		}
		rewritten, err := Rewrite(filter)
		if err != nil {
			return
		}
		if err := Equal(filter, rewritten); err != nil {
			t.Fatal(err)
		}
	})
}

// Equal is compared with another interpreter of the same instructions.
func TestEqualRunsAsTheLibraryDoes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 20 {
		filter := randomRules(r)
		code, err := decode(filter)
		if err != nil {
			t.Fatal(err)
		}
		vm, err := bpf.NewVM(code)
		if err != nil {
			t.Fatal(err)
		}
		for range 500 {
			data := [16]uint32{uint32(r.IntN(470)), []uint32{amd64, i386, 7}[r.IntN(3)]}
			for i := 4; i < len(data); i++ {
				data[i] = []uint32{0, 8, 0x20000, 9, r.Uint32()}[r.IntN(5)]
			}
			var packet []byte
			for _, w := range data {
				packet = binary.BigEndian.AppendUint32(packet, w)
			}
			want, err := vm.Run(packet)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := run(code, &data)
			if err != nil || got != uint32(want) {
				t.Fatalf("%x: %x, %v, want %x", data, got, err, want)
			}
		}
	}
}
