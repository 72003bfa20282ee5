//go:build !crash

package crash

import "time"

// At does nothing.
func At(...string) {}

// Hang does nothing.
func Hang(...string) {}

// Duration returns otherwise.
func Duration(_ string, otherwise time.Duration) time.Duration { return otherwise }
