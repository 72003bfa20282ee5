package jobset

import (
	"flag"
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

var (
	seeds     = flag.Int("seeds", 20, "how many random cases to play")
	firstSeed = flag.Int64("seed", 0, "the seed of the first of them")
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}
