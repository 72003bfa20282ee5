// Package node decides which pending pods are bound to this machine, and when: what a cluster's scheduler does, for one
// node.
//
// In come pods that wait, run and end, PodGroups, and what the Node object says. Out go decisions (Step): pods to be bound,
// and pods to be preempted for others. A Node is changed only by its methods, and nothing here does I/O.
//
// # How it is used
//
//	n := node.New(maxPods, allocatable)
//	n.Describe(object)                // the Node object: cordon, taints, labels
//	n.SetGroup(key, group)            // PodGroups, before or after their pods
//	n.Bound(node.PodOf(p), since, no) // pods that are on the node already
//	n.Wait(node.PodOf(p), nominated)  // pods that wait
//	n.Gone(uid)                       // pods that have ended, and those that were deleted
//
//	n.At(now)                         // before the decisions of a time
//	for step, ok := n.Next(nil); ok; step, ok = n.Next(nil) {
//		// store the step
//	}
//
// A pod that is told of twice counts once. Next takes one decision after the other until nothing more can be decided; then
// it costs nothing to call it again before something has changed.
//
// # What a step means
//
// Next has made the step happen in the Node: pods of Step.Bind count as bound, Step.Victims as ending, and room is reserved
// for Step.Nominate. So a step has to be stored. When it cannot be, the Node is of no use any more, and a new one is made of
// what is stored. The caller still tells with Bound when a pod that was bound has started or is ending, and with Gone when a
// victim has ended: only then does its room go to the pod it was reserved for.
//
// # What is ordered
//
// Pods are looked at in the order of their priority, then those that somebody has put ahead (Reorder), then, after
// ShareFairly, those of the account that has used least, then the oldest. A pod that does not fit holds up nobody behind it,
// until it has waited for StarvationAfter: then nothing that it needs is given to those behind it any more (reservation). A
// gang counts as one: as many of its pods as have to start together are bound in one step, or none is. Room that is reserved
// for a nominated pod goes to nobody of the same or a lower priority.
//
// # What is durable
//
// Nothing here. A Node is made anew at every start from the stored pods: spec.nodeName says which are bound, and
// status.nominatedNodeName for which others were preempted. Bindings and preemptions are the caller's to store.
//
// # Costs, and who may call
//
// Pods that are alike wait in one line, and a line that is blocked is not looked at again before something has changed in
// its favour. Next returns an empty step after some time (stepsAtOnce) so that others can go on; call it again. A Pod must
// not be changed once it was passed to a Node. A Node must not be used by several goroutines at a time. Why and Room, which
// explain to people what a pod waits for, change no decision.
//
// # What stands elsewhere
//
// What needs no node is in packages below: what pods ask that can be counted (requests), of the machine (fit) and of each other
// (relation, which keeps the rules), what they take together (load), who has used least (fairness), whether devices are found one
// by one (cards), and how a kubelet refuses pods that are bound to it, or evicts others for them (kubelet). What Room and Outlook
// return is in prospect, so that those who explain or look ahead need not know a node.
//
// What is decided for what is shown by the cases in testdata/cases.
package node
