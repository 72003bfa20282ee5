package job

// Running is a pod of a Job that runs, or is being stopped.
type Running struct {
	Ref
	Index    int32 // completion index, -1 for none
	Since    int64 // when it became ready or, if it is not, when it was created, in seconds since 1970
	Restarts int32
	Stopping bool
	Ready    bool
}

// Running returns the pods that run or are being stopped, in no order.
func (r *Record) Running() (running []Running) {
	for _, stage := range []stage{live, ending} {
		for _, p := range r.at(stage) {
			if p.phase != runningPhase {
				continue
			}
			since := p.readySince
			if since == 0 {
				since = p.created
			}
			running = append(running, Running{p.ref(), p.index, int64(since), p.restarts, stage == ending, p.readySince != 0})
		}
	}
	return running
}
