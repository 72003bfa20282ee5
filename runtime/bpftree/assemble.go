package bpftree

import (
	"fmt"
	"slices"

	"golang.org/x/net/bpf"
)

// assembler writes code from its end to its start, since jumps only lead forward: what a decision leads to is there
// before it.
type assembler struct {
	*tree
	reversed []bpf.RawInstruction
	// ends maps a node to where its code begins, counted in instructions from the end of the whole.
	ends map[int]int
	// alone holds the nodes that are only reached with their word in the accumulator.
	alone map[int]bool
	err   error
}

func (t *tree) assemble(root int) ([]bpf.RawInstruction, error) {
	a := &assembler{tree: t, ends: map[int]int{}, alone: map[int]bool{}}
	a.findLoaded(root)
	a.write(root)
	if a.err == nil && len(a.reversed) > maxInstructions {
		a.err = fmt.Errorf("%w: it would have %d instructions", ErrUnsupported, len(a.reversed))
	}
	slices.Reverse(a.reversed)
	return a.reversed, a.err
}

// findLoaded finds the nodes that need not load their word, since all that leads to them has loaded it.
func (a *assembler) findLoaded(root int) {
	loads := map[int]bool{root: true}
	seen := map[int]bool{}
	var visit func(id int)
	visit = func(id int) {
		if seen[id] {
			return
		}
		seen[id] = true
		d := a.nodes[id]
		if !d.isTest {
			return
		}
		for _, to := range []int{d.yes, d.no} {
			if a.nodes[to].isTest && a.nodes[to].held != d.held {
				loads[to] = true
			}
			visit(to)
		}
	}
	visit(root)
	for id := range seen {
		a.alone[id] = !loads[id]
	}
}

func (a *assembler) emit(i bpf.Instruction) int {
	raw, err := i.Assemble()
	if err != nil && a.err == nil {
		a.err = err
	}
	a.reversed = append(a.reversed, raw)
	return len(a.reversed)
}

// write writes a node after all that it leads to.
func (a *assembler) write(id int) {
	if _, ok := a.ends[id]; ok {
		return
	}
	d := a.nodes[id]
	if !d.isTest {
		a.ends[id] = a.emit(bpf.RetConstant{Val: d.k})
		return
	}
	a.write(d.yes)
	a.write(d.no)
	// Up to two instructions may come between the test and the rest.
	a.near(d.no, 2)
	a.near(d.yes, 1)
	at := len(a.reversed)
	a.ends[id] = a.emit(bpf.JumpIf{
		Cond: d.test, Val: d.k, SkipTrue: uint8(at - a.ends[d.yes]), SkipFalse: uint8(at - a.ends[d.no]),
	})
	if !a.alone[id] {
		if d.held.mask != everyBit {
			a.emit(bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: d.held.mask})
		}
		a.ends[id] = a.emit(bpf.LoadAbsolute{Off: d.held.offset, Size: 4})
	}
}

// near makes sure that a conditional jump reaches a node when some more instructions have been written.
func (a *assembler) near(id, more int) {
	if len(a.reversed)+more-a.ends[id] <= maxJump {
		return
	}
	if d := a.nodes[id]; !d.isTest {
		a.ends[id] = a.emit(bpf.RetConstant{Val: d.k})
		return
	}
	a.ends[id] = a.emit(bpf.Jump{Skip: uint32(len(a.reversed) - a.ends[id])})
}
