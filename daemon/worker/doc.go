// Package worker acts for pods: it launches and stops containers, runs their probes and hooks, and removes what a pod had on
// the host.
//
// In come the actions that package pod has decided on, after they were committed; out go observations of what came of them,
// and of what the runtime says. The workers touch the runtime, the images and whatever the set-up steps touch, never the
// store: a result counts once the loop has stored it.
//
// # What is ordered
//
// The actions of one pod are carried out in the order in which they were passed to Do, with these exceptions. A Stop and a
// RunPreStop begin at once, beside what is queued. A Stop of a container whose launch is queued or under way calls the
// launch off; if it is too late for that, the container is stopped once it has started. A TearDown calls off all launches of
// its pod, and what was queued to refresh, measure or resize it is dropped. Launches that stand in the queue together are
// done together: the pod is set up once. The actions of different pods have no order.
//
// The observations of one launch come in their order, and its end after its start. Between others there is no order, and one
// may come twice, also after a restart of the daemon: package pod knows by the attempt what it has seen.
//
// # What may block
//
// Do never does: it queues, and returns. Set-up, pulls, starts and tear-downs of at most Config.Parallel pods run at a time;
// a pod gives its place to others while a step waits for something (Sandbox.Yield) or takes long. Places are divided among
// namespaces, as limiter says, so that steps that hang keep only pods of their own namespace waiting. Stops and hooks have
// goroutines of their own and no limit. A pod for which there is nothing to do has no goroutine, whether it runs or not.
//
// Report is called with locks held, so it must not block and must not call the Pool. Nor may Begin block. The methods of
// Steps may take as long as they need and are called by one goroutine at a time for one pod, but for many pods at once. One
// that takes longer than two minutes is reported as Stuck, and is not interrupted.
//
// # Failures
//
// An action is never given up silently. A launch that fails is reported, and is made again only when package pod asks for
// that. A tear-down that fails is repeated until it succeeds, after a second at first and a minute at last, since what is
// left on the host belongs to the pod. TornDown is reported when nothing is left.
//
// # What is durable
//
// Nothing here. What a Pool knows is gone with the daemon; containers go on without it. Recover, which is called once before
// the first Do, compares what the runtime and the steps hold with the stored pods, reports what has happened meanwhile, and
// removes what belongs to no pod. Actions are idempotent: those that were under way are asked for again by package pod, and
// a start that has happened is found. Close drops what is queued and waits a limited time for what is under way; containers
// keep running.
//
// # Who owns what
//
// A pod that is passed to Do must not be changed afterwards. The observations that are passed to Report belong to whoever
// takes them. All methods of a Pool may be called from any goroutine.
package worker
