// Package loop is the machinery of the one control loop: passes over the store, the timers, and what a concern of the loop
// is (Controller). The concerns themselves are in other packages.
//
// Changes of the store, observations of the pods' workers and the time come in. What goes out is one transaction a pass, and
// what is to be done once that is durable (Pass.After). Controllers write through their Pass alone.
//
// # A pass
//
// In this order a pass
//
//  1. folds what others have written since the last pass into the records of the controllers (Controller.Fold; of namespaces, which
//     many follow and are decoded once, NamespaceFollower.NamespaceChanged),
//  2. sorts the observations that have come by their pods (Observer),
//  3. calls Controller.Due for the times that have come,
//  4. lets the controllers decide: the first of them that has something to look at takes one decision (Controller.Settle), and
//     then all are asked again from the first on, until none has anything to decide or the budget is used up; before that, those
//     that the last pass did not ask for want of budget decide with half of it,
//  5. lets those that want it act at the end (Finisher), and
//  6. writes the pods, Jobs and CronJobs that controllers have changed and not written themselves (View).
//
// All of it is one transaction with one time, Pass.Now. When it is durable, the functions that were passed to Pass.After are
// called, in that order, before the next pass begins. Whether a pass shares the commit of the client whose change it follows
// from (Pass.Joined) makes no difference to the controllers, but for a smaller budget.
//
// # What is durable
//
// Nothing but the store: the records of the controllers are memory, and all of it can be derived from the store
// (Controller.Rebuild, and before it NamespaceFollower.NamespaceKnown). When a pass fails, nothing of it was written, but
// the records may know what was never written. So the controllers are thrown away and made anew, the observations are
// taken in again by the next pass, and the changes are folded in again. When the daemon is killed after the commit and
// before the effects, the effects are lost: what a pass asks to be done after it must be asked for again by whoever reads
// the records at the next start. package pod does that for pods.
//
// # Clients that write much
//
// The loop's turn at the store is the next one, however many others wait, and the store keeps for it what it has not read
// (store.Store.Follow). If more is written all the same, while the loop reads everything anew after a pass that failed, say, it
// reads everything once more in its turn, when nobody else writes: so the next pass comes, whatever they do.
//
// # Which goroutine
//
// Run is called by one goroutine, the loop's, and it alone calls controllers, one method at a time. So records need no lock,
// and nobody else may touch them. Inbox.Report, Inbox.Nudge, Loop.Ask and Loop.Unstored may be called from any goroutine;
// Ask runs its function on the loop's goroutine between two passes, and must not be called from there.
//
// # What may block
//
// Nothing in a pass: all writers of the store wait while one runs, and the client whose commit it shares. What takes long is
// divided by budgets: a pass ends with work left over (Pass.Spent), and the next one goes on with it, after the other
// writers. Whatever waits, for a runtime, a disk or a network, is done by workers, which report to the Inbox. Report and
// Nudge never block. What is passed to Pass.After must not block either. The watchdog is told which object of which
// controller a pass is at work on (Pass.Works); an object on which the loop has hung is set aside and left out from then on
// (package aside).
package loop
