package meter

import (
	"fmt"
	"time"

	"github.com/prometheus/procfs"
)

// Machine is what a machine has used.
type Machine struct {
	CPU        time.Duration // processor time since the start of the kernel
	WorkingSet int64         // bytes of memory in use, without the file pages that the kernel takes back first
}

// ReadMachine reads what this machine has used.
func ReadMachine() (Machine, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return Machine{}, fmt.Errorf("usage of this machine: %w", err)
	}
	stat, err := proc.Stat()
	if err != nil {
		return Machine{}, fmt.Errorf("usage of this machine: %w", err)
	}
	memory, err := proc.Meminfo()
	if err != nil {
		return Machine{}, fmt.Errorf("usage of this machine: %w", err)
	}
	of := func(figure *uint64) int64 {
		if figure == nil {
			return 0
		}
		return int64(*figure)
	}
	cpu := stat.CPUTotal // guests are in User and Nice already
	busy := cpu.User + cpu.Nice + cpu.System + cpu.IRQ + cpu.SoftIRQ
	used := of(memory.MemTotalBytes) - of(memory.MemFreeBytes) - of(memory.InactiveFileBytes)
	return Machine{CPU: time.Duration(busy * float64(time.Second)), WorkingSet: max(0, used)}, nil
}
