package conns

import (
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// pipeFrom returns a connection of a peer.
func pipeFrom(table *Table, peer string) *Conn {
	ours, _ := net.Pipe()
	c := newConn(ours, table, peer)
	table.change(func() {
		table.open++
		c.park()
	})
	return c
}

func TestThePeerThatHoldsMostMakesRoom(t *testing.T) {
	table := New(4)
	quiet := pipeFrom(table, "quiet")
	first, busy, third := pipeFrom(table, "greedy"), pipeFrom(table, "greedy"), pipeFrom(table, "greedy")
	busy.Hold()
	fourth, fifth := pipeFrom(table, "greedy"), pipeFrom(table, "greedy")
	for name, tc := range map[string]struct {
		*Conn
		gone bool
	}{
		"the other peer's": {quiet, false}, "the oldest": {first, true}, "one that is served": {busy, false},
		"a younger one": {third, false}, "the fourth": {fourth, false}, "the youngest": {fifth, false},
	} {
		if tc.Conn.gone != tc.gone {
			t.Errorf("%s: closed %v", name, tc.Conn.gone)
		}
	}
	busy.Release() // it is the youngest of five now
	if !third.gone || busy.gone {
		t.Error("a connection whose request has just ended goes first")
	}
	if open, idle, closed := table.Figures(); open != 4 || idle != 4 || closed != 2 {
		t.Errorf("%d are open, %d do nothing, %d were closed", open, idle, closed)
	}
	for _, c := range []*Conn{quiet, first, busy, third, fourth, fifth} {
		_ = c.Close()
		_ = c.Close()
	}
	if open, idle, _ := table.Figures(); open != 0 || idle != 0 || len(table.peers) != 0 {
		t.Errorf("%d are open, %d do nothing, of %v", open, idle, table.peers)
	}
}

func TestAPeerThatConnectsTooFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := New(1)
		let := func(peer string, tries int) (in int) {
			for range tries {
				if table.inTime(peer) {
					in++
				}
			}
			return in
		}
		if in := let("hasty", connectBurst+50); in != connectBurst {
			t.Errorf("%d are let in at once", in)
		}
		if in := let("other", 10); in != 10 {
			t.Errorf("%d of another peer are let in", in)
		}
		time.Sleep(time.Second)
		if in := let("hasty", 500); in != connectRate {
			t.Errorf("%d are let in after a second", in)
		}
		time.Sleep(time.Minute)
		for i := range 2 * manyRates { // what has no effect is not stored
			table.inTime(fmt.Sprint("peer", i))
			time.Sleep(time.Millisecond)
		}
		if n := len(table.rates); n > manyRates {
			t.Errorf("it keeps the rates of %d peers", n)
		}
	})
}

func TestAConnectionThatIsClosedWhileItIsServed(t *testing.T) {
	table := New(1)
	c := pipeFrom(table, "a")
	c.Hold()
	_ = c.Close()
	c.Release()
	if open, idle, _ := table.Figures(); open != 0 || idle != 0 {
		t.Errorf("%d are open, %d do nothing", open, idle)
	}
}
