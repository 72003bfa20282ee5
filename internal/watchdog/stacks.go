package watchdog

import (
	"runtime"
	"slices"
	"strings"
)

// maxStacks bounds the stacks of all goroutines, in bytes.
const maxStacks = 4 << 20

// Stacks returns the stacks of all goroutines, each as one text, up to a bound.
func Stacks() []string {
	for size := 256 << 10; ; size *= 4 {
		buffer := make([]byte, size)
		n := runtime.Stack(buffer, true)
		if n < size || size >= maxStacks {
			return strings.Split(strings.TrimSpace(string(buffer[:n])), "\n\n")
		}
	}
}

// stacksWith returns those in which one of the functions is at work.
func stacksWith(functions, stacks []string) []string {
	return slices.DeleteFunc(slices.Clone(stacks), func(stack string) bool {
		return !slices.ContainsFunc(functions, func(f string) bool { return strings.Contains(stack, f+"(") })
	})
}
