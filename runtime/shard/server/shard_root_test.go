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
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/shard/protocol"
)

func TestHowContainersEnd(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		for i, c := range []struct {
			name   string
			args   []string
			code   int
			signal int
		}{
			{"a command that succeeds", []string{"true"}, 0, 0},
			{"a command that fails", []string{"false"}, 1, 0},
			{"an exit code", []string{"sh", "-c", "exit 42"}, 42, 0},
			{"a code that looks like a signal", []string{"sh", "-c", "exit 137"}, 137, 0},
			{"a signal", []string{"sh", "-c", "kill -9 -1; sleep 1; exit 3"}, 3, 0}, // init of a PID namespace is spared by its own
		} {
			t.Run(c.name, func(t *testing.T) {
				id := fmt.Sprint("c", i)
				started := b.run(id, c.args...)
				end := b.exit(id)
				if end.State != protocol.Exited || end.ExitCode != c.code || end.Signal != c.signal || end.OOMKilled || end.StartError != "" {
					t.Errorf("ended as %+v", end)
				}
				if end.PID != started.PID || end.StartedAt.IsZero() || end.FinishedAt.Before(end.StartedAt) || end.Labels["test"] == "" {
					t.Errorf("ended as %+v, started as %+v", end, started)
				}
				if got, err := b.Delete(b.context(), id); err != nil || !reflect.DeepEqual(got, end) {
					t.Errorf("deleted as %+v, %v; want %+v", got, err, end)
				}
				b.t = t
				b.nothingIsLeft()
			})
		}
	})
}

func TestSignal(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		b.run("c", "sleep", "100")
		if err := b.Signal(b.context(), "c", unix.SIGKILL, false); err != nil {
			t.Fatal(err)
		}
		if end := b.exit("c"); end.ExitCode != 137 || end.Signal != 9 {
			t.Errorf("ended as %+v", end)
		}
		if err := b.Signal(b.context(), "c", unix.SIGKILL, false); !errors.Is(err, errdefs.ErrNotFound) {
			t.Errorf("signal to one that has ended: %v", err)
		}
		if err := b.Signal(b.context(), "unknown", unix.SIGTERM, true); !errors.Is(err, errdefs.ErrNotFound) {
			t.Errorf("signal to an unknown one: %v", err)
		}
		b.run("trap", "sh", "-c", "trap 'echo caught; exit 7' TERM; echo ready; while :; do sleep 0.01; done")
		b.waitForLog("trap", "stdout F ready")
		must(t, b.Signal(b.context(), "trap", unix.SIGTERM, false))
		if end := b.exit("trap"); end.ExitCode != 7 {
			t.Errorf("ended as %+v", end)
		}
		b.run("all", "sh", "-c", "sleep 100 & echo ready; wait; echo waited")
		b.waitForLog("all", "stdout F ready")
		must(t, b.Signal(b.context(), "all", unix.SIGTERM, true)) // init of a PID namespace ignores it, its child does not
		if end := b.exit("all"); end.ExitCode != 0 {
			t.Errorf("ended as %+v", end)
		}
		if got := b.log("all"); !reflect.DeepEqual(got, []string{"stdout F ready", "stdout F waited"}) {
			t.Errorf("log is %q", got)
		}
	})
}

func (b *bed) waitForLog(id, record string) {
	b.t.Helper()
	for range 12000 {
		content, _ := os.ReadFile(b.logPath(id))
		if strings.Contains(string(content), record+"\n") {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	b.t.Fatalf("no %q in the log of %s", record, id)
}

func TestStartThatFails(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		for name, c := range map[string]struct {
			change func(*protocol.Start, *specs.Spec)
			words  string
		}{
			"no such command":   {func(_ *protocol.Start, s *specs.Spec) { s.Process.Args = []string{"nope"} }, "nope"},
			"no such directory": {func(_ *protocol.Start, s *specs.Spec) { s.Process.Cwd = "/bin/sh/none" }, ""},
			"a bad mount": {func(_ *protocol.Start, s *specs.Spec) {
				s.Mounts = append(s.Mounts, specs.Mount{Destination: "/x", Type: "bind", Source: "/does/not/exist", Options: []string{"bind"}})
			}, "/does/not/exist"},
			"a bad root":      {func(r *protocol.Start, _ *specs.Spec) { r.Rootfs[0].Options[0] = "lowerdir=/does/not/exist" }, "mount overlay"},
			"no such runtime": {func(r *protocol.Start, _ *specs.Spec) { r.Runtime = "/does/not/exist" }, "/does/not/exist"},
		} {
			t.Run(name, func(t *testing.T) {
				spec := b.spec("c", "true")
				request := b.request("c", spec)
				c.change(&request, spec)
				changed := b.request("c", spec)
				changed.Runtime, changed.Rootfs = request.Runtime, request.Rootfs
				got, err := b.Start(b.context(), changed)
				var failed *protocol.StartError
				if !errors.As(err, &failed) || !strings.Contains(failed.Message, c.words) || failed.Message == "" {
					t.Fatalf("started with %v", err)
				}
				t.Log(failed.Message)
				if again, err := b.Start(b.context(), changed); !errors.As(err, &failed) {
					t.Errorf("started again with %v as %+v", err, again)
				}
				end, err := b.Delete(b.context(), "c")
				if err != nil || end.State != protocol.Exited || end.ExitCode != 128 || end.StartError != failed.Message {
					t.Errorf("deleted as %+v, %v (was %+v)", end, err, got)
				}
				if log := b.log("c"); len(log) > 0 {
					t.Errorf("the runtime's words are in the log: %q", log)
				}
				b.t = t
				b.nothingIsLeft()
			})
		}
	})
}

func TestStartThatIsRefused(t *testing.T) {
	b := newBed(t, "crun")
	for name, change := range map[string]func(*protocol.Start){
		"an ID that leads elsewhere": func(s *protocol.Start) { s.ID = "../c" },
		"no ID":                      func(s *protocol.Start) { s.ID = "" },
		"a spec that is no JSON":     func(s *protocol.Start) { s.Spec = []byte("{") },
		"no cgroup":                  func(s *protocol.Start) { s.Spec = []byte("{}") },
		"everybody's cgroup":         func(s *protocol.Start) { s.Facts = &protocol.SpecFacts{Cgroup: "/"} },
		"a runtime to be searched":   func(s *protocol.Start) { s.Runtime = "crun" },
	} {
		t.Run(name, func(t *testing.T) {
			request := b.request("c", b.spec("c", "true"))
			change(&request)
			if _, err := b.Start(b.context(), request); !errors.Is(err, errdefs.ErrInvalidArgument) {
				t.Error(err)
			}
			if all, err := b.List(b.context()); err != nil || len(all) > 0 {
				t.Errorf("held: %+v, %v", all, err)
			}
		})
	}
}

func TestStartTwiceIsOneContainer(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		request := b.request("c", b.spec("c", "sh", "-c", "echo once; sleep 100"))
		var starts sync.WaitGroup
		pids := make([]int, 5)
		for i := range pids {
			starts.Go(func() {
				c, err := b.Start(b.context(), request)
				if err != nil {
					t.Error(err)
				}
				pids[i] = c.PID
			})
		}
		starts.Wait()
		for _, pid := range pids {
			if pid == 0 || pid != pids[0] {
				t.Errorf("processes %v", pids)
			}
		}
		b.waitForLog("c", "stdout F once")
		must(t, b.Signal(b.context(), "c", unix.SIGKILL, false))
		b.exit("c")
		if c, err := b.Start(b.context(), request); err != nil || c.State != protocol.Exited {
			t.Errorf("started after its end: %+v, %v", c, err)
		}
		if got := b.log("c"); !reflect.DeepEqual(got, []string{"stdout F once"}) {
			t.Errorf("log is %q", got)
		}
	})
}

func TestOutput(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		b.run("both", "sh", "-c", "for i in 1 2 3; do echo out $i; echo err $i >&2; done; printf end")
		b.exit("both")
		log := b.log("both")
		for stream, want := range map[string][]string{
			"stdout": {"stdout F out 1", "stdout F out 2", "stdout F out 3", "stdout P end"},
			"stderr": {"stderr F err 1", "stderr F err 2", "stderr F err 3"},
		} {
			var got []string
			for _, record := range log {
				if strings.HasPrefix(record, stream) {
					got = append(got, record)
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s is %q", stream, got)
			}
		}
		b.run(
			"long", "sh", "-c",
			"dd if=/proc/self/exe of=/dev/null 2>/dev/null; head -c 10485760 /dev/zero 2>/dev/null || yes | tr -d '\\n' | head -c 10485760; echo",
		)
		if end := b.exit("long"); end.ExitCode != 0 || end.LogError != "" {
			t.Errorf("ended as %+v", end)
		}
		size := 0
		records := b.log("long")
		for i, r := range records {
			text := r[len("stdout F "):]
			size += len(text)
			if partial := r[7] == 'P'; partial != (i < len(records)-1) || len(text) > 16<<10 {
				t.Fatalf("record %d of %d is %.20q, %d bytes", i, len(records), r, len(r))
			}
		}
		if size != 10485760 {
			t.Errorf("%d bytes in %d records", size, len(records))
		}
		spec := b.spec("reopened", "sh", "-c", "echo by name > /proc/self/fd/1; echo more > /proc/self/fd/2")
		spec.Process.User = specs.User{UID: 1000, GID: 1000}
		_, err := b.Start(b.context(), b.request("reopened", spec))
		must(t, err)
		b.exit("reopened")
		if got := b.log("reopened"); len(got) != 2 {
			t.Errorf("log of one that opens its streams by name, not being root, is %q", got)
		}
	})
}

func TestOutputHeldOpenByOthersDoesNotDelayTheEnd(t *testing.T) {
	b := newBed(t, "crun")
	t.Run("by one that shares the PID namespace", func(t *testing.T) {
		spec := b.spec("c", "sh", "-c", "setsid sh -c 'while :; do echo still here; sleep 0.01; done' & echo main; exit 5")
		spec.Linux.Namespaces = spec.Linux.Namespaces[1:]
		_, err := b.Start(b.context(), b.request("c", spec))
		must(t, err)
		if end := b.exit("c"); end.ExitCode != 5 {
			t.Errorf("ended as %+v", end)
		}
		if got := strings.Join(b.log("c"), "\n"); !strings.Contains(got, "stdout F main") {
			t.Errorf("log is %q", got)
		}
	})
	t.Run("by one out of reach", func(t *testing.T) {
		b.run("c2", "sh", "-c", "trap 'exit 5' TERM; echo main; while :; do sleep 0.01; done")
		b.waitForLog("c2", "stdout F main")
		held, err := os.OpenFile(filepath.Join(b.options.Dir, "containers", "c2", stdoutFIFO), os.O_WRONLY, 0)
		must(t, err)
		stop := make(chan struct{})
		go func() {
			defer held.Close()
			for {
				select {
				case <-stop:
					return
				default:
					fmt.Fprintln(held, "noise")
				}
			}
		}()
		defer close(stop)
		must(t, b.Signal(b.context(), "c2", unix.SIGTERM, false))
		if end := b.exit("c2"); end.ExitCode != 5 {
			t.Errorf("ended as %+v", end)
		}
	})
}

func TestLogThatCannotBeWritten(t *testing.T) {
	b := newBed(t, "crun")
	request := b.request("c", b.spec("c", "sh", "-c", "seq 1 100000; exit 4"))
	request.LogPath = "/dev/full"
	_, err := b.Start(b.context(), request)
	must(t, err)
	if end := b.exit("c"); end.ExitCode != 4 || !strings.Contains(end.LogError, "no space left") {
		t.Errorf("ended as %+v", end)
	}
}

func TestOOMKill(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		spec := b.spec("c", "sh", "-c", "tail -c 100000000 /proc/self/fd/0 < /dev/hungry")
		limit := int64(16 << 20)
		spec.Linux.Resources = &specs.LinuxResources{Memory: &specs.LinuxMemory{Limit: &limit, Swap: &limit}}
		spec.Linux.Devices = []specs.LinuxDevice{{Path: "/dev/hungry", Type: "c", Major: 1, Minor: 5}} // zero
		_, err := b.Start(b.context(), b.request("c", spec))
		must(t, err)
		end := b.exit("c")
		if !end.OOMKilled || end.ExitCode == 0 {
			t.Errorf("ended as %+v", end)
		}
		// cgroup v2 has no peak before Linux 5.19.
		if v1 := fileExists("/sys/fs/cgroup/memory/memory.usage_in_bytes"); (v1 || end.PeakMemory != 0) &&
			(end.PeakMemory > limit || end.PeakMemory < limit/2) {
			t.Errorf("a peak of %d bytes, the limit was %d", end.PeakMemory, limit)
		}
		if end.CPUTime <= 0 || end.CPUTime > time.Minute {
			t.Errorf("it took %v of processor time", end.CPUTime)
		}
	})
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestTerminationMessage(t *testing.T) {
	b := newBed(t, "crun")
	path := filepath.Join(b.dir, "message")
	must(t, os.WriteFile(path, nil, 0o666))
	spec := b.spec("c", "sh", "-c", "printf 'last words' > /tmp/message")
	spec.Mounts = append(spec.Mounts, specs.Mount{Destination: "/tmp/message", Type: "bind", Source: path, Options: []string{"bind"}})
	request := b.request("c", spec)
	request.MessagePath = path
	_, err := b.Start(b.context(), request)
	must(t, err)
	if end := b.exit("c"); end.Message != "last words" {
		t.Errorf("ended as %+v", end)
	}
	must(t, os.WriteFile(path, []byte(strings.Repeat("x", protocol.MaxMessage)+"end"), 0o666))
	if got, err := readMessage(path); len(got) != protocol.MaxMessage || !strings.HasSuffix(got, "xend") || err != nil {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	must(t, os.Remove(path))
	must(t, os.Symlink("/etc/shadow", path))
	if got, err := readMessage(path); got != "" || err == nil {
		t.Errorf("a symbolic link was read: %q, %v", got, err)
	}
}

func TestDeleteOfARunningContainer(t *testing.T) {
	eachRuntime(t, func(t *testing.T, b *bed) {
		b.run("c", "sh", "-c", "trap '' TERM; sleep 1000")
		if end, err := b.Delete(b.context(), "c"); err != nil || end.ExitCode != 137 {
			t.Errorf("deleted as %+v, %v", end, err)
		}
		b.nothingIsLeft()
		if end, err := b.Delete(b.context(), "c"); err != nil {
			t.Errorf("deleted again as %+v, %v", end, err)
		}
	})
}

// waitForOutput waits until something is in the pipe of a container's output, whose shard does not read it.
func (b *bed) waitForOutput(id string) {
	b.t.Helper()
	pipes, err := filepath.Glob(filepath.Join(b.options.Dir, "*", id, stdoutFIFO))
	must(b.t, err)
	pipe, err := unix.Open(pipes[0], unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	must(b.t, err)
	defer unix.Close(pipe)
	for range 12000 {
		if n, err := unix.IoctlGetInt(pipe, unix.TIOCINQ); err == nil && n > 0 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	b.t.Fatalf("%s writes nothing", id)
}

func TestShardIsOutOfTheDaemonsCgroup(t *testing.T) {
	b := newBed(t, "crun")
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", b.PID()))
	must(t, err)
	if !strings.Contains(string(content), b.cgroup+"/shard") {
		t.Errorf("cgroups are\n%s", content)
	}
}

func TestImageOfManyLayers(t *testing.T) {
	b := newBed(t, "crun")
	request := b.request("c", b.spec("c", "echo", "hello"))
	var layers []string
	for i := range 60 {
		dir := filepath.Join(b.dir, strings.Repeat("x", 60), fmt.Sprint(i))
		must(t, os.MkdirAll(dir, 0o755))
		layers = append(layers, dir)
	}
	must(t, os.CopyFS(layers[59], os.DirFS(b.image)))
	request.Rootfs[0].Options[0] = "lowerdir=" + strings.Join(layers, ":")
	_, err := b.Start(b.context(), request)
	must(t, err)
	b.exit("c")
	if got := b.log("c"); !reflect.DeepEqual(got, []string{"stdout F hello"}) {
		t.Errorf("log is %q", got)
	}
}

func TestReadOnlyBindAsRoot(t *testing.T) {
	b := newBed(t, "runc") // crun makes it writable unless the spec says otherwise too
	request := b.request("c", b.spec("c", "sh", "-c", "echo no > /file"))
	request.Rootfs = []protocol.Mount{{Type: "bind", Source: b.image, Options: []string{"rbind", "ro"}}}
	_, err := b.Start(b.context(), request)
	must(t, err)
	if end := b.exit("c"); end.ExitCode == 0 {
		t.Error("the root file system could be written to")
	}
}
