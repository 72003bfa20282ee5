// Package prospect is what a node.Node says of the pods that wait: what they wait for (Room), and what is on the machine and in front of
// them (Outlook). Package node fills it in; package causes explains it to people, package forecast looks ahead by it.
//
// These are values without anything behind them.
package prospect

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/fairness"
	"github.com/jobd/jobd/daemon/fit"
	"github.com/jobd/jobd/daemon/requests"
)

// Room is what a waiting pod waits for, in detail. Why says the same in a scheduler's words.
type Room struct {
	// Place is the pod's place among all pods that wait, from 1, and Waiting how many wait. A pod behind it may start
	// before it where that one fits and this one does not.
	Place, Waiting int
	Priority       int32
	// Nominated says that pods of a lower priority are being preempted for it.
	Nominated bool
	// Node is the name of this machine.
	Node string
	// Unfit is why this machine does not take the pod even if it is empty, and Apart what other pods on it have to do with that.
	Unfit, Apart []fit.Obstacle
	// Short are the resources of which too little is free.
	Short []Shortage
	// Ports are the ports of the host that another pod holds.
	Ports []int32
	// Full says that as many pods are on the node as it takes, which are MaxPods.
	Full    bool
	MaxPods int
	// Holders are the pods on the node that use one of these, or keep it away, those that use the most first.
	Holders []Holder
	// Gang is the pod's gang, nil for none.
	Gang *GangWait
	// Fair is what decides about the place among pods of the same priority; nil if that is their age.
	Fair *FairPlace
	// Kept is the room that is kept for the pod or its gang, or from it for one that has waited for longer; nil if there is none.
	Kept *Kept
}

// Clear reports whether nothing is known that the pod waits for: it is about to start.
func (r *Room) Clear() bool {
	return len(r.Unfit)+len(r.Apart)+len(r.Short)+len(r.Ports) == 0 && !r.Full && (r.Gang == nil || r.Gang.Complete())
}

// FairPlace is what the account of a pod has used, and that which comes first of those that have pods that wait.
type FairPlace struct{ Own, First fairness.Account }

// Kept is room that is kept for a pod that has waited for too long.
type Kept struct {
	// First is the pod, or the first of its gang. Own says that it is the pod that is asked about, or one of the same gang.
	First types.UID
	Own   bool
	// Since is since when, and By by when it has that room by the deadlines of those that run; zero if they do not say.
	Since, By time.Time
}

// Shortage is a resource of which too little is free: cpu in thousandths, all others in their own unit.
type Shortage struct {
	Resource                   corev1.ResourceName
	Request, Free, Allocatable int64
	// Used is how many of the devices others than pods use, which are not free for that reason.
	Used int64
	// Reserved is what is kept for nominated pods, and not free for that reason, and Kept what is for the one that has waited for too long.
	Reserved, Kept int64
}

// Holder is a pod on the node.
type Holder struct {
	UID      types.UID
	Priority int32
	Started  time.Time // zero: not yet
	Ending   bool
	Requests requests.Resources
}

// GangWait is what the gang of a waiting pod waits for.
type GangWait struct {
	// Key is the namespace and name of the PodGroup. Known says that it exists.
	Key   string
	Known bool
	// Need is how many pods of the gang have to start together, Bound how many are on the node, Waiting how many wait,
	// and Fitting how many of those fit now.
	Need, Bound, Waiting, Fitting int
}

// Complete reports whether a gang need not be waited for: it is on the node, or enough of it fits.
func (g *GangWait) Complete() bool { return g.Known && g.Bound+min(g.Waiting, g.Fitting) >= g.Need }
