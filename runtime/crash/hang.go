//go:build crash

package crash

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Hang marks a point by its name in parts. When the test has said so, whoever passes it does not come back: it spins, or
// waits for ever, or panics.
func Hang(parts ...string) {
	if dir == "" {
		return
	}
	content, _ := os.ReadFile(filepath.Join(dir, hangs))
	if len(content) == 0 {
		return
	}
	how, point, _ := strings.Cut(string(content), " ")
	if point != strings.Join(parts, " ") {
		return
	}
	for how == "spin" {
	}
	if how == "panic" {
		panic("at " + point)
	}
	select {}
}

// Duration returns what the environment sets a time to, for tests that cannot wait for it.
func Duration(variable string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(os.Getenv(variable)); err == nil {
		return d
	}
	return otherwise
}
