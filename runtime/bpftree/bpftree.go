// Package bpftree rewrites a seccomp filter into one that decides the same with far fewer instructions.
//
// Compilers such as libseccomp compare the number of a system call with that of one rule after the other. The kernel runs a
// new filter once for each system call, to find those that are always allowed, and so each container pays for all of these
// comparisons before its first instruction. Rewrite takes the filter's code, and returns code that finds the rule by binary
// search. It is pure: nothing is loaded into the kernel.
//
// What a filter does depends on three things: the architecture, the number of the system call, and the words of the
// arguments. Rewrite runs the filter for each architecture that it knows and each range of numbers that it treats alike,
// keeps what is left to decide by the arguments, and writes down the resulting decisions, equal ones only once.
package bpftree

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"golang.org/x/net/bpf"
)

// Offsets in struct seccomp_data (linux/seccomp.h).
const (
	offsetNumber = 0
	offsetArch   = 4
)

const (
	// maxInstructions is BPF_MAXINSNS: the kernel takes no longer filter.
	maxInstructions = 4096
	// maxJump is how far a conditional jump reaches.
	maxJump = 255
	// size of an instruction, struct sock_filter.
	size = 8
)

// ErrUnsupported is the error of a filter that uses instructions which Rewrite does not follow. It is a valid filter all
// the same, perhaps.
var ErrUnsupported = errors.New("the filter cannot be rewritten")

// Rewrite returns a filter that decides like the given one: the same value for every system call, on every architecture,
// with any arguments. Both are arrays of struct sock_filter in the byte order of this machine, as the kernel takes them.
func Rewrite(filter []byte) ([]byte, error) {
	code, err := decode(filter)
	if err != nil {
		return nil, err
	}
	t := &tree{code: code, ids: map[decision]int{}}
	c, err := classesOf(code)
	if err != nil {
		return nil, err
	}
	root, err := t.root(c)
	if err != nil {
		return nil, err
	}
	out, err := t.assemble(root)
	if err != nil {
		return nil, err
	}
	return encode(out), nil
}

func decode(filter []byte) ([]bpf.Instruction, error) {
	if len(filter) == 0 || len(filter)%size != 0 || len(filter) > maxInstructions*size {
		return nil, fmt.Errorf("%w: %d bytes are no filter", ErrUnsupported, len(filter))
	}
	code := make([]bpf.Instruction, 0, len(filter)/size)
	for b := range slices.Chunk(filter, size) {
		raw := bpf.RawInstruction{Op: binary.NativeEndian.Uint16(b), Jt: b[2], Jf: b[3], K: binary.NativeEndian.Uint32(b[4:])}
		code = append(code, raw.Disassemble())
	}
	return code, nil
}

func encode(code []bpf.RawInstruction) []byte {
	out := make([]byte, 0, len(code)*size)
	for _, i := range code {
		out = binary.NativeEndian.AppendUint16(out, i.Op)
		out = append(out, i.Jt, i.Jf)
		out = binary.NativeEndian.AppendUint32(out, i.K)
	}
	return out
}

// words of struct seccomp_data: number, architecture, two of the instruction pointer, two of each argument.
const words = 16

// word is what the accumulator holds: the word at an offset of struct seccomp_data, masked.
type word struct {
	offset, mask uint32
	loaded       bool // false at the start, where it holds 0
}

// classes are the values that a filter tells apart.
type classes struct {
	archs   map[uint32]bool // those that it compares with the architecture
	numbers map[uint32]bool // the first of each range of numbers
	// arguments are the values that it compares arguments with, by the index of the word.
	arguments [words][]uint32
}

// classesOf follows all paths through the filter.
func classesOf(code []bpf.Instruction) (classes, error) {
	c := classes{archs: map[uint32]bool{}, numbers: map[uint32]bool{0: true}}
	type state struct {
		pc   int
		held word
	}
	seen := map[state]bool{}
	for next := []state{{}}; len(next) > 0; {
		at := next[len(next)-1]
		next = next[:len(next)-1]
		if seen[at] {
			continue
		}
		seen[at] = true
		s, err := stepAt(code, at.pc, at.held)
		if err != nil {
			return c, err
		}
		switch s.kind {
		case stepReturn:
		case stepTest:
			if at.held.loaded && at.held.offset == offsetArch {
				if s.test != bpf.JumpEqual || at.held.mask != everyBit {
					return c, fmt.Errorf("%w: instruction %d compares parts of the architecture", ErrUnsupported, at.pc)
				}
				c.archs[s.k] = true
			}
			if at.held.loaded && at.held.offset == offsetNumber {
				if s.test == bpf.JumpBitsSet || at.held.mask != everyBit {
					return c, fmt.Errorf("%w: instruction %d looks at bits of the number", ErrUnsupported, at.pc)
				}
				c.numbers[s.k] = true
				if s.k != everyBit {
					c.numbers[s.k+1] = true
				}
			}
			if at.held.offset > offsetArch {
				c.arguments[at.held.offset/4] = append(c.arguments[at.held.offset/4], s.k)
			}
			next = append(next, state{s.yes, at.held}, state{s.no, at.held})
		case stepOn:
			next = append(next, state{s.yes, s.held})
		}
	}
	return c, nil
}

const everyBit = ^uint32(0)

type stepKind int

const (
	stepOn stepKind = iota // goes on at yes, with another word
	stepTest
	stepReturn
)

// step is what one instruction does.
type step struct {
	kind    stepKind
	held    word
	test    bpf.JumpTest // of the tests without a counterpart: equal, greater or equal, greater, bits set
	k       uint32       // what the word is compared with, or what is returned
	yes, no int
}

func stepAt(code []bpf.Instruction, pc int, held word) (step, error) {
	if pc >= len(code) {
		return step{}, fmt.Errorf("%w: it does not end with a value", ErrUnsupported)
	}
	switch i := code[pc].(type) {
	case bpf.LoadAbsolute:
		if i.Size != 4 || i.Off%4 != 0 || i.Off >= words*4 {
			break
		}
		return step{kind: stepOn, held: word{offset: i.Off, mask: everyBit, loaded: true}, yes: pc + 1}, nil
	case bpf.ALUOpConstant:
		if i.Op != bpf.ALUOpAnd {
			break
		}
		held.mask &= i.Val
		return step{kind: stepOn, held: held, yes: pc + 1}, nil
	case bpf.Jump:
		return step{kind: stepOn, held: held, yes: pc + 1 + int(i.Skip)}, nil
	case bpf.JumpIf:
		s := step{kind: stepTest, test: i.Cond, k: i.Val, yes: pc + 1 + int(i.SkipTrue), no: pc + 1 + int(i.SkipFalse)}
		switch s.test { // those that the disassembler shows for an instruction with its branches the other way round
		case bpf.JumpNotEqual:
			s.test, s.yes, s.no = bpf.JumpEqual, s.no, s.yes
		case bpf.JumpLessThan:
			s.test, s.yes, s.no = bpf.JumpGreaterOrEqual, s.no, s.yes
		case bpf.JumpLessOrEqual:
			s.test, s.yes, s.no = bpf.JumpGreaterThan, s.no, s.yes
		case bpf.JumpBitsNotSet:
			s.test, s.yes, s.no = bpf.JumpBitsSet, s.no, s.yes
		}
		return s, nil
	case bpf.RetConstant:
		return step{kind: stepReturn, k: i.Val}, nil
	}
	return step{}, fmt.Errorf("%w: instruction %d is %v", ErrUnsupported, pc, code[pc])
}

// decision is a node: a value, or a test with what follows. Equal ones are the same node.
type decision struct {
	isTest  bool
	held    word
	test    bpf.JumpTest
	k       uint32
	yes, no int
}

type tree struct {
	code  []bpf.Instruction
	nodes []decision
	ids   map[decision]int
}

func (t *tree) node(d decision) int {
	if d.isTest && d.yes == d.no {
		return d.yes
	}
	d = t.merged(d)
	id, ok := t.ids[d]
	if !ok {
		id = len(t.nodes)
		t.nodes = append(t.nodes, d)
		t.ids[d] = id
	}
	return id
}

// merged returns one test in place of two that compare bits of the same word one after the other, where that is the same. A rule
// for all values but those that have some bits in common comes as a rule for each of these bits.
func (t *tree) merged(d decision) decision {
	if !d.isTest || d.test != bpf.JumpEqual || d.k&^d.held.mask != 0 {
		return d
	}
	for _, d := range []decision{d, turned(d)} {
		for _, next := range []decision{t.nodes[d.yes], turned(t.nodes[d.yes])} {
			if next.isTest && next.test == bpf.JumpEqual && next.no == d.no && next.k&^next.held.mask == 0 &&
				next.held.loaded && d.held.loaded && next.held.offset == d.held.offset && next.held.mask&d.held.mask == 0 {
				d.held.mask |= next.held.mask
				d.k, d.yes = d.k|next.k, next.yes
				return d
			}
		}
	}
	return d
}

// turned returns a test of one bit the other way round; anything else as it is.
func turned(d decision) decision {
	if d.isTest && d.test == bpf.JumpEqual && bits.OnesCount32(d.held.mask) == 1 && d.k&^d.held.mask == 0 {
		d.k, d.yes, d.no = d.k^d.held.mask, d.no, d.yes
	}
	return d
}

// root returns the decision of the whole filter: the architecture first, then the number, then the arguments.
func (t *tree) root(c classes) (int, error) {
	var other uint32
	for c.archs[other] {
		other++
	}
	id, err := t.numbers(other, c)
	if err != nil {
		return 0, err
	}
	// The filter most likely compares with this machine's architecture first: keep that order.
	for _, arch := range slices.Backward(t.archs(c)) {
		of, err := t.numbers(arch, c)
		if err != nil {
			return 0, err
		}
		id = t.node(decision{
			isTest: true, held: word{offset: offsetArch, mask: everyBit, loaded: true}, test: bpf.JumpEqual, k: arch, yes: of, no: id,
		})
	}
	return id, nil
}

// archs returns the architectures in the order in which the filter names them.
func (t *tree) archs(c classes) (ordered []uint32) {
	for _, i := range t.code {
		if i, ok := i.(bpf.JumpIf); ok && c.archs[i.Val] && !slices.Contains(ordered, i.Val) {
			ordered = append(ordered, i.Val)
		}
	}
	return ordered
}

// numbers returns the decision for an architecture.
func (t *tree) numbers(arch uint32, c classes) (int, error) {
	type run struct {
		first uint32
		id    int
	}
	var runs []run
	for _, first := range slices.Sorted(maps.Keys(c.numbers)) {
		r := rest{tree: t, arch: arch, number: first, known: map[place]int{}}
		id, err := r.from(place{})
		if err != nil {
			return 0, err
		}
		if len(runs) == 0 || runs[len(runs)-1].id != id {
			runs = append(runs, run{first, id})
		}
	}
	var search func(runs []run) int
	search = func(runs []run) int {
		if len(runs) == 1 {
			return runs[0].id
		}
		half := len(runs) / 2
		return t.node(decision{
			isTest: true, held: word{offset: offsetNumber, mask: everyBit, loaded: true}, test: bpf.JumpGreaterOrEqual, k: runs[half].first,
			yes: search(runs[half:]), no: search(runs[:half]),
		})
	}
	return search(runs), nil
}

// rest finds what is left to decide when the architecture and the number are known.
type rest struct {
	*tree
	arch, number uint32
	known        map[place]int
}

type place struct {
	pc   int
	held word
}

func (r *rest) from(at place) (id int, err error) {
	if id, ok := r.known[at]; ok {
		return id, nil
	}
	start := at
	defer func() { r.known[start] = id }()
	for {
		s, err := stepAt(r.code, at.pc, at.held)
		if err != nil {
			return 0, err
		}
		switch s.kind {
		case stepReturn:
			return r.node(decision{k: s.k}), nil
		case stepOn:
			at = place{s.yes, s.held}
			continue
		}
		if value, ok := r.value(at.held); ok {
			if holds(s.test, value, s.k) {
				at.pc = s.yes
			} else {
				at.pc = s.no
			}
			continue
		}
		yes, err := r.from(place{s.yes, at.held})
		if err != nil {
			return 0, err
		}
		no, err := r.from(place{s.no, at.held})
		if err != nil {
			return 0, err
		}
		return r.node(decision{isTest: true, held: at.held, test: s.test, k: s.k, yes: yes, no: no}), nil
	}
}

// value returns what a word is, if that does not depend on an argument.
func (r *rest) value(w word) (uint32, bool) {
	switch {
	case !w.loaded || w.mask == 0:
		return 0, true
	case w.offset == offsetArch:
		return r.arch & w.mask, true
	case w.offset == offsetNumber:
		return r.number & w.mask, true
	}
	return 0, false
}

func holds(test bpf.JumpTest, value, k uint32) bool {
	switch test {
	case bpf.JumpEqual:
		return value == k
	case bpf.JumpGreaterThan:
		return value > k
	case bpf.JumpGreaterOrEqual:
		return value >= k
	default:
		return value&k != 0
	}
}
