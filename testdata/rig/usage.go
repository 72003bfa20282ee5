package rig

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Usage is what a process has used: CPU seconds of its own and of its ended children, of these alone, and memory in MB.
type Usage struct{ CPU, Children, RSS, Anon float64 }

// UsageOf returns what a process has used; nothing if it is gone.
func UsageOf(pid int) (u Usage) {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if _, rest, ok := bytes.Cut(stat, []byte(") ")); ok {
		fields := strings.Fields(string(rest))
		for _, i := range []int{11, 12, 13, 14} { // utime, stime, cutime, cstime in ticks of 10 ms
			ticks, _ := strconv.ParseFloat(fields[i], 64)
			u.CPU += ticks / 100
			if i >= 13 {
				u.Children += ticks / 100
			}
		}
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kb, _ := strconv.ParseFloat(fields[1], 64)
		switch fields[0] {
		case "VmRSS:":
			u.RSS = kb / 1024
		case "RssAnon:":
			u.Anon = kb / 1024
		}
	}
	return u
}
