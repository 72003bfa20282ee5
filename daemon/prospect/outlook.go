package prospect

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/requests"
)

// Outlook is what is on the node and what waits for it, for those who look ahead.
type Outlook struct {
	MaxPods     int
	Allocatable requests.Resources // nil: anything
	Running     []Outlined
	// Waiting are in the order of the queue. Those that the node does not take even if it is empty are missing.
	Waiting []Outlined
	// More is how many wait behind them.
	More int
}

// Outlined is a pod, or the pods of a gang that have to start together.
type Outlined struct {
	UID      types.UID // of the first
	Pods     int
	Requests requests.Resources
	// Started is when it has started, Ends when it has ended at the latest; zero for not yet, and for never.
	Started, Ends time.Time
	// Frozen says that it stands still until somebody lets it go on, and PausedFor is for how long it did so since its start, before that.
	Frozen    bool
	PausedFor time.Duration
	// Limit is how long it may run, 0 for ever.
	Limit time.Duration
}
