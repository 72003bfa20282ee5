package conns

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWhoLeavesStreamsLooseIsHungUpOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := New(1000)
		greedy, patient, quick := pipeFrom(table, "a"), pipeFrom(table, "b"), pipeFrom(table, "c")
		defer func() {
			for _, c := range []*Conn{greedy, patient, quick} {
				_ = c.Close()
			}
		}()
		var old []*Stream
		for range MaxLoose - 10 {
			old = append(old, greedy.Begin())
		}
		patient.Begin()
		served := quick.Begin()
		served.Hold()
		if n := table.Loose(); n != MaxLoose-9 {
			t.Fatalf("%d are loose", n)
		}
		var young []*Stream
		for range 20 {
			young = append(young, quick.Begin())
		}
		if greedy.gone || patient.gone || quick.gone {
			t.Fatal("one is hung up on though nothing takes long")
		}
		for _, s := range young {
			s.End()
		}
		time.Sleep(time.Minute)
		if greedy.gone {
			t.Fatal("there are few again")
		}
		for range 20 {
			quick.Begin()
		}
		if !greedy.gone || patient.gone || quick.gone {
			t.Errorf("gone: %t, %t, %t", greedy.gone, patient.gone, quick.gone)
		}
		for _, s := range old { // which the server says later
			s.End()
		}
		if n := table.Loose(); n != 21 {
			t.Errorf("%d are loose when it is gone", n)
		}
		served.End() // its client has broken it off
		served.Release()
		if n := table.Loose(); n != 21 || quick.loose != 20 {
			t.Errorf("%d are loose after the end of one that was served, %d of them its connection's", n, quick.loose)
		}
		_, _, closed := table.Figures()
		if closed != 1 {
			t.Errorf("%d are counted", closed)
		}
	})
}

func TestWhoBreaksOffStreamsIsHungUpOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := New(1000)
		greedy, patient := pipeFrom(table, "a"), pipeFrom(table, "b")
		defer func() {
			for _, c := range []*Conn{greedy, patient} {
				_ = c.Close()
			}
		}()
		for range breakBurst {
			greedy.Broken()
			patient.Broken()
		}
		hungUp := func(c *Conn) bool { return c.SetDeadline(time.Time{}) != nil }
		if hungUp(greedy) || hungUp(patient) {
			t.Error("one is hung up on that has broken off as many as may be at a time")
		}
		greedy.Broken()
		for range 10 * breakBurst {
			time.Sleep(time.Second / breakRate)
			patient.Broken()
		}
		if !hungUp(greedy) || hungUp(patient) {
			t.Errorf("hung up on: %t, %t", hungUp(greedy), hungUp(patient))
		}
	})
}
