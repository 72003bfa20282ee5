//go:build !linux

package watchdog

import "time"

// Nothing is known of a process where there is no /proc, and no daemon.

func cpuTime() time.Duration { return 0 }

func threads() (runnable, blocked bool) { return false, false }
