package signals

import "testing"

func TestSignalsOfImages(t *testing.T) {
	for name, want := range map[string]int{
		"": 15, "SIGTERM": 15, "TERM": 15, "quit": 3, "SIGQUIT": 3, "9": 9, "SIGRTMIN": 34, "SIGRTMIN+3": 37, "RTMAX-1": 63, "nonsense": 15, "99": 15,
	} {
		if got := int(Parse(name)); got != want {
			t.Errorf("%q is %d, want %d", name, got, want)
		}
	}
}
