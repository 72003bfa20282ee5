package control_test

import (
	"testing"

	"github.com/jobd/jobd/daemon/controltest"
)

// world is a world with what only the tests of this package ask of it.
type world struct{ *controltest.World }

func newWorld(t *testing.T) *world { return &world{controltest.New(t)} }

// small is a world whose node has 3 cpus.
func small(t *testing.T) *world { return &world{controltest.Small(t)} }
