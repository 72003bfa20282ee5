package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/shard"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

func TestDaemonThatIsGone(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		b.run("short", "sh", "-c", "sleep 0.3; echo unseen; exit 9")
		long := b.run("long", "sh", "-c", "trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done")
		pid := b.PID()
		must(t, b.Close())
		for ended := (protocol.Container{}); !ended.State.Ended(); time.Sleep(5 * time.Millisecond) {
			must(t, readRecord(filepath.Join(b.options.Dir, "containers", "short"), stateFile, &ended))
		}
		b.open()
		if b.PID() != pid {
			t.Errorf("another shard: %d, was %d", b.PID(), pid)
		}
		all, err := b.List(b.context())
		for err == nil && len(all) == 2 && !all[1].State.Ended() { // an end is on disk before it is told
			all, err = b.List(b.context())
		}
		must(t, err)
		if len(all) != 2 || all[0].ID != "long" || all[0].State != protocol.Running || all[0].PID != long.PID ||
			all[1].ExitCode != 9 || all[1].State != protocol.Exited {
			t.Fatalf("listed %+v", all)
		}
		b.waitForLog("long", "stdout F ready")
		must(t, b.Signal(b.context(), "long", unix.SIGTERM, false))
		if end := b.exit("long"); end.ExitCode != 3 {
			t.Errorf("ended as %+v", end)
		}
	})
}

func TestShardThatIsKilledIsStartedAnew(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		if !tellsExits() {
			t.Skip("needs Linux 6.15, which tells how an adopted process ends")
		}
		b.run("ended", "sh", "-c", "exit 6")
		b.exit("ended")
		meanwhile := b.run("meanwhile", "sh", "-c", "trap 'echo late; exit 8' TERM; echo ready; while :; do sleep 0.01; done")
		b.waitForLog("meanwhile", "stdout F ready")
		talks := b.run("talks", "sh", "-c", "trap 'echo bye; exit 4' TERM; i=0; while :; do i=$((i+1)); echo $i; sleep 0.001; done")
		b.waitForLog("talks", "stdout F 10")
		pid := b.PID()
		b.die()
		must(t, unix.Kill(meanwhile.PID, unix.SIGTERM))
		if end := b.exit("ended"); end.ExitCode != 6 {
			t.Errorf("told again as %+v", end)
		}
		if end := b.exit("meanwhile"); end.State != protocol.Lost && (end.ExitCode != 8 || end.State != protocol.Exited) {
			t.Errorf("ended as %+v", end)
		}
		all, err := b.List(b.context())
		must(t, err)
		if len(all) != 3 || all[2].ID != "talks" || all[2].State != protocol.Running || all[2].PID != talks.PID || b.PID() == pid {
			t.Fatalf("listed %+v", all)
		}
		must(t, b.Signal(b.context(), "talks", unix.SIGTERM, false))
		if end := b.exit("talks"); end.State != protocol.Exited || end.ExitCode != 4 || !end.StartedAt.Equal(talks.StartedAt) {
			t.Errorf("ended as %+v, started as %+v", end, talks)
		}
		log := b.log("talks")
		// What the shard had read and not yet written when it was killed is gone with it: one gap, nothing twice.
		gaps, last := 0, 0
		for _, record := range log[:len(log)-1] {
			var n int
			if _, err := fmt.Sscanf(record, "stdout F %d", &n); err != nil || n <= last {
				t.Fatalf("after %d came %q (%v)", last, record, err)
			}
			if n > last+1 {
				gaps++
			}
			last = n
		}
		if gaps > 1 {
			t.Errorf("%d gaps in the log", gaps)
		}
		if last := log[len(log)-1]; last != "stdout F bye" {
			t.Errorf("last record is %q", last)
		}
	})
}

func TestContainersOfAKilledShardAreLostWhereTheKernelDoesNotTell(t *testing.T) {
	eachRuntimeSerially(t, func(t *testing.T, b *bed) {
		t.Setenv(neverAdopt, "1")
		c := b.run("c", "sh", "-c", "trap 'echo late' USR1; echo hello; while :; do sleep 0.01; done")
		b.waitForLog("c", "stdout F hello")
		b.stop()
		must(t, unix.Kill(c.PID, unix.SIGUSR1))
		b.waitForOutput("c")
		b.die()
		if end := b.exit("c"); end.State != protocol.Lost || end.PID != c.PID || end.Labels["test"] == "" {
			t.Errorf("ended as %+v", end)
		}
		if again, err := b.Start(b.context(), b.request("c", b.spec("c", "true"))); err != nil || again.State != protocol.Lost {
			t.Errorf("started again: %+v, %v", again, err)
		}
		if got := b.log("c"); !reflect.DeepEqual(got, []string{"stdout F hello", "stdout F late"}) {
			t.Errorf("log is %q", got)
		}
		_, err := b.Delete(b.context(), "c")
		must(t, err)
		b.nothingIsLeft()
	})
}

func TestShardKilledDuringStarts(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		const containers = 30
		var starts sync.WaitGroup
		for i := range containers {
			starts.Go(func() {
				id := fmt.Sprint("c", i)
				if _, err := b.Start(b.context(), b.request(id, b.spec(id, "sleep", "1000"))); err != nil {
					var failed *protocol.StartError
					if !errors.As(err, &failed) {
						t.Error(err)
					}
				}
			})
		}
		for range 3 {
			time.Sleep(60 * time.Millisecond)
			_, err := b.List(b.context()) // until it is there again
			must(t, err)
			b.die()
		}
		starts.Wait()
		all, err := b.List(b.context())
		must(t, err)
		states := map[protocol.State]int{}
		for _, c := range all {
			states[c.State]++
		}
		if len(all) != containers || states[protocol.Starting] > 0 {
			t.Errorf("%d containers: %v", len(all), states)
		}
		t.Log(states)
		for _, c := range all {
			if _, err := b.Delete(b.context(), c.ID); err != nil {
				t.Error(err)
			}
		}
		b.nothingIsLeft()
	})
}

func TestTwoShardsInOneDirectory(t *testing.T) {
	b := newBed(t, "crun")
	_, err := lockDir(b.options.Dir)
	if !errors.Is(err, errdefs.ErrUnavailable) || !strings.Contains(err.Error(), fmt.Sprint("held by process ", b.PID())) {
		t.Error(err)
	}
}

// Another daemon may have started one just before it died.
func TestOpenWaitsForAShardThatIsNotReady(t *testing.T) {
	b := newBed(t, "crun")
	o := b.options
	o.Dir = filepath.Join(b.dir, "other")
	if err := os.Mkdir(o.Dir, 0o711); err != nil {
		t.Fatal(err)
	}
	lock, err := lockDir(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer lock.Close()
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if said, _ := os.ReadFile(filepath.Join(o.Dir, "shard.log")); len(said) > 0 {
				return // it was refused
			}
		}
	}()
	other, err := shard.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestVolatileLayerIsMountedAgainAfterAShardHasDied(t *testing.T) {
	b := newBed(t, "crun")
	first := b.request("c1", b.spec("c1", "echo", "hello"))
	first.Rootfs[0].Options = append(first.Rootfs[0].Options, volatile)
	second := b.request("c2", b.spec("c2", "echo", "again"))
	second.Rootfs = first.Rootfs // nobody has removed what the first mount leaves
	for _, request := range []protocol.Start{first, second} {
		_, err := b.Start(b.context(), request)
		must(t, err)
		b.exit(request.ID)
	}
	if got := b.log("c2"); !reflect.DeepEqual(got, []string{"stdout F again"}) {
		t.Errorf("log is %q", got)
	}
}
