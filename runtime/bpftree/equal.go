package bpftree

import (
	"fmt"
	"math/rand/v2"

	"golang.org/x/net/bpf"
)

// arguments are how many sets of arguments are tried with each number.
const arguments = 40

// Equal returns an error that shows a system call for which two filters differ, if it finds one. It tries all
// architectures and all bounds of numbers that either filter knows, with arguments at the bounds of what they are
// compared with. It is for tests.
func Equal(a, b []byte) error {
	var codes [2][]bpf.Instruction
	archs, numbers := map[uint32]bool{1: true}, map[uint32]bool{}
	var values [words][]uint32
	for i, filter := range [][]byte{a, b} {
		code, err := decode(filter)
		if err != nil {
			return err
		}
		c, err := classesOf(code)
		if err != nil {
			return err
		}
		for arch := range c.archs {
			archs[arch] = true
		}
		for n := range c.numbers {
			numbers[n], numbers[n-1] = true, true
		}
		for at, compared := range c.arguments {
			for _, k := range compared {
				values[at] = append(values[at], k-1, k, k+1, ^k)
			}
		}
		codes[i] = code
	}
	r := rand.New(rand.NewPCG(1, 2))
	for arch := range archs {
		for number := range numbers {
			for range arguments {
				data := [words]uint32{number, arch}
				for at, of := range values {
					if n := r.IntN(len(of) + 2); n < len(of) {
						data[at] = of[n]
					} else if at > offsetArch/4 {
						data[at] = r.Uint32()
					}
				}
				x, xLooks, err := run(codes[0], &data)
				if err != nil {
					return err
				}
				y, yLooks, err := run(codes[1], &data)
				if err != nil {
					return err
				}
				if x != y {
					return fmt.Errorf("system call %x: %#x and %#x", data, x, y)
				}
				if !xLooks && !yLooks {
					break
				}
			}
		}
	}
	return nil
}

// run returns the value of a filter for a system call, and whether it looked at an argument.
func run(code []bpf.Instruction, data *[words]uint32) (value uint32, looks bool, err error) {
	var held word
	for pc := 0; ; {
		s, err := stepAt(code, pc, held)
		switch {
		case err != nil:
			return 0, looks, err
		case s.kind == stepReturn:
			return s.k, looks, nil
		case s.kind == stepOn:
			pc, held = s.yes, s.held
			looks = looks || held.offset > offsetArch
		case holds(s.test, held.of(data), s.k):
			pc = s.yes
		default:
			pc = s.no
		}
	}
}

// of returns the value of the word for a system call.
func (w word) of(data *[words]uint32) uint32 {
	if !w.loaded {
		return 0
	}
	return data[w.offset/4] & w.mask
}
