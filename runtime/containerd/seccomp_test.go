package containerd

import "testing"

func TestTakesFilters(t *testing.T) {
	for version, want := range map[string]bool{
		"crun 1.8.1":       true,
		"crun 1.21-dirty":  true,
		"crun 0.18":        true,
		"crun 0.17":        false,
		"crun 0.9.1":       false,
		"crun UNKNOWN":     false,
		"runc 1.1.5+ds1":   false,
		"my-runtime 1.2.3": false,
	} {
		if got := takesFilters(version); got != want {
			t.Errorf("%s: %v", version, got)
		}
	}
}
