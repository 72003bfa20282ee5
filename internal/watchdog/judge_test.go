package watchdog

import (
	"testing"
	"time"
)

// What happens in each second of a story.
type second struct {
	elapsed           time.Duration // 0: one second
	cpu               time.Duration
	runnable, blocked bool
	steps             uint64 // made in it
	ends, disk        bool
}

func seconds(n int, s second) []second {
	all := make([]second, n)
	for i := range all {
		all[i] = s
	}
	return all
}

func join(parts ...[]second) (all []second) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func TestJudge(t *testing.T) {
	var (
		spins    = second{cpu: time.Second, runnable: true}
		deadlock = second{}
		working  = second{cpu: time.Second, runnable: true, steps: 1}
		fsync    = second{disk: true}
		paging   = second{blocked: true}
		stopped  = second{elapsed: 5 * time.Minute}
		starving = second{cpu: 10 * time.Millisecond, runnable: true}
		others   = second{cpu: 3 * time.Second, runnable: true}
	)
	for _, c := range []struct {
		rule  string
		story []second
		want  Health
		lasts time.Duration
	}{
		{"what has just begun is healthy", seconds(1, spins), Healthy, time.Second},
		{"what spins is healthy for ten seconds", seconds(9, spins), Healthy, 9 * time.Second},
		{"what spins is slow then", seconds(10, spins), Slow, 10 * time.Second},
		{"and still after 59 seconds", seconds(59, spins), Slow, 59 * time.Second},
		{"what spins for a minute hangs", seconds(60, spins), Hung, time.Minute},
		{"what waits for ever hangs, though it takes no processor", seconds(60, deadlock), Hung, time.Minute},
		{"a step begins the minute anew", join(seconds(59, spins), seconds(1, working), seconds(30, spins)), Slow, 90 * time.Second},
		{"what makes steps is slow, but does not hang", seconds(500, working), Slow, 500 * time.Second},
		{"what makes steps without an end hangs", seconds(600, working), Hung, 600 * time.Second},
		{"the end of the work is healthy", join(seconds(30, spins), seconds(1, second{ends: true})), Healthy, 0},
		{"a slow disk is not a hang", seconds(1000, fsync), WaitsForDisk, 1000 * time.Second},
		{"nor is it when the file is mapped", seconds(1000, paging), WaitsForDisk, 1000 * time.Second},
		{"what spins hangs, though others wait for the disk", seconds(60, second{cpu: time.Second, runnable: true, blocked: true}), Hung, time.Minute},
		{"a process that was stopped does not hang", join(seconds(5, spins), seconds(1, stopped), seconds(3, spins)), Healthy, 8 * time.Second},
		{"however often", join(seconds(5, deadlock), seconds(1000, stopped)), Healthy, 5 * time.Second},
		{"what is stopped while it hangs still hangs", join(seconds(59, spins), seconds(9, stopped), seconds(1, spins)), Hung, time.Minute},
		{"a process that gets no processor is slow, but does not hang", seconds(1000, starving), Slow, 1000 * time.Second},
		{"until it has had a quarter of a minute of it", seconds(1500, starving), Hung, 1500 * time.Second},
		{"what spins on half a processor hangs after a minute", seconds(60, second{cpu: time.Second / 2, runnable: true}), Hung, time.Minute},
		{"no more counts than has passed, whatever others take", seconds(59, others), Slow, 59 * time.Second},
		{"what waits for the disk at first and then spins", join(seconds(30, fsync), seconds(59, spins)), Slow, 89 * time.Second},
		{"hangs as well", join(seconds(30, fsync), seconds(60, spins)), Hung, 90 * time.Second},
	} {
		t.Run(c.rule, func(t *testing.T) {
			judge := newJudge(DefaultLimits())
			state := State{Turn: 1, Steps: 1, Busy: true}
			judge.take(sample{Elapsed: time.Second, Sections: []State{{}}})
			judge.take(sample{Elapsed: time.Second, Sections: []State{state}})
			var got Verdict
			for _, s := range c.story {
				state.Steps += s.steps
				state.Busy, state.Disk = !s.ends, s.disk
				if s.elapsed == 0 {
					s.elapsed = time.Second
				}
				sample := sample{Elapsed: s.elapsed, CPU: s.cpu, Runnable: s.runnable, Blocked: s.blocked, Sections: []State{state}}
				if suspects := judge.suspects(sample.Sections); suspects != (state.Busy && s.steps == 0) {
					t.Errorf("it suspects the work: %t", suspects)
				}
				got = judge.take(sample)[0]
				if got.Health == Hung && c.want != Hung {
					break
				}
			}
			if got.Health != c.want || got.Lasts != c.lasts {
				t.Errorf("got %d after %v, want %d after %v", got.Health, got.Lasts, c.want, c.lasts)
			}
		})
	}
}

// Many short pieces of work are never slow, even if each sample meets one.
func TestManyPiecesOfWork(t *testing.T) {
	judge := newJudge(DefaultLimits())
	for turn := range uint64(1000) {
		if v := judge.take(
			sample{Elapsed: time.Second, CPU: time.Second, Sections: []State{{Turn: turn, Steps: 7 * turn, Busy: true}}},
		); v[0].Health != Healthy {
			t.Fatal(v)
		}
	}
}

func TestVerdictInWords(t *testing.T) {
	state := State{Concern: "cronJobs", Object: "cronjobs.batch/default/x"}
	for want, v := range map[string]Verdict{
		"": {},
		"a pass has been at work for 14s in cronJobs on cronjobs.batch/default/x": {Health: Slow, What: "a pass", Lasts: 14 * time.Second, State: state},
		"a pass has been at work for 1m0s":                                        {Health: Hung, What: "a pass", Lasts: time.Minute},
		"the disk has not answered for 34s: a transaction of the database waits for it": {
			Health: WaitsForDisk, What: "a transaction of the database", Lasts: 34 * time.Second,
		},
	} {
		if got := v.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
