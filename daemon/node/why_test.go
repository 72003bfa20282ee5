package node

import (
	"testing"

	"github.com/jobd/jobd/daemon/requests"
)

// What Why says is among the cases; this is when it may say something else.
func TestWhoWaitsForAGangIsToldWhenItGrows(t *testing.T) {
	n := New(9, requests.Resources{"cpu": 2000})
	n.SetGroup("ns/g", Group{Gang: true, MinCount: 3})
	n.Wait(want("a", 1, 1000).with(of("g")), false)
	decide(n)
	n.Changed()
	n.Wait(want("b", 1, 1000).with(of("g")), false)
	n.Wait(want("c", 1, 1000).with(of("g")), false)
	if len(n.Changed()) < 3 {
		t.Error("nobody is told that they wait for another reason now")
	}
}
