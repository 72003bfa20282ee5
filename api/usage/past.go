package usage

import "time"

// Past is what the machine has used since the daemon has started, at most for a day: GET .../nodes/NAME/usage. All lists are
// of one length, the oldest first. A machine that slept leaves a hole in the times.
type Past struct {
	At     []int64 `json:"at"`     // ends of the spans that the figures are of, in seconds since 1970
	CPU    []int64 `json:"cpu"`    // processor time per second, on average over the span, in thousandths of a processor
	Memory []int64 `json:"memory"` // working set at the end of the span, in bytes
}

// Add appends a span, and forgets the oldest one if there are more than most.
func (p *Past) Add(at time.Time, cpu time.Duration, memory int64, most int) {
	drop := max(0, len(p.At)+1-most)
	p.At = append(p.At[drop:], at.Unix())
	p.CPU = append(p.CPU[drop:], cpu.Milliseconds())
	p.Memory = append(p.Memory[drop:], memory)
}
