package vm

import (
	"slices"
	"testing"
	"time"
)

// TestBriefly is the short form of the others: a few tests, a reboot and a power cut, in one machine.
func TestBriefly(t *testing.T) {
	if !testing.Short() {
		t.Skip("the others are this at length")
	}
	m := boot(t, newDisk(t))
	m.part("suite", func() {
		m.suite(func(name string) bool { return slices.Contains(brief, name) })
	})
	m.part("reboot", func() {
		m.serve()
		m.rebootsWell()
	})
	// The machine that is started anew must outlive this part.
	began := time.Now()
	training := m.train()
	training.save(m, 1)
	t.Logf("training began within %v", time.Since(began).Round(100*time.Millisecond))
	m = m.powerCuts(1)
	training.finish(m)
	m.clean()
}

// bootAtLength boots a machine for a test that is not part of the short form.
func bootAtLength(t *testing.T) *machine {
	t.Helper()
	if testing.Short() {
		t.Skip("TestBriefly is this in short")
	}
	return boot(t, newDisk(t))
}

// part is a test within a test.
func (m *machine) part(name string, test func()) {
	whole, began := m.t, time.Now()
	whole.Run(name, func(t *testing.T) {
		m.t = t
		test()
	})
	m.t = whole
	whole.Logf("%s took %v", name, time.Since(began).Round(100*time.Millisecond))
}
