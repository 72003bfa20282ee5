package containerd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sync/singleflight"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/files"
	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/shard"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

// ociRuntime is a program that makes containers out of specs, and why it was chosen.
type ociRuntime struct {
	Path    string
	Args    []string // global options
	Version string   // "crun 1.8.1"
	Why     string   // "" if it was asked for or the first choice

	fingerprint string // of everything that its behaviour depends on
}

func (o ociRuntime) String() string {
	if o.Why == "" {
		return fmt.Sprintf("%s (%s)", o.Version, o.Path)
	}
	return fmt.Sprintf("%s (%s; %s)", o.Version, o.Path, o.Why)
}

// foreign reports whether it is neither crun nor runc, so that little is known about it.
func (o ociRuntime) foreign() bool {
	return !strings.HasPrefix(o.Version, "crun ") && !strings.HasPrefix(o.Version, "runc ")
}

// verdict is the outcome of a self-test that passed. It is valid for as long as nothing that it depends on has changed.
// A failure is not kept, since its cause may be the state of the host at that moment: busy, full, or without a mount.
type verdict struct {
	Fingerprint string `json:"fingerprint"`
	Version     string `json:"version"`
}

// runtimes are the OCI runtimes that have run a container on this host.
type runtimes struct {
	config  Config
	shards  *shards
	testing singleflight.Group

	mu     sync.Mutex            // also guards the file of verdicts
	tested map[string]ociRuntime // by fingerprint
}

// choose returns the runtime of pods that name none: the configured one if there is one, or else crun, which is faster,
// or else runc.
func (r *runtimes) choose(ctx context.Context) (ociRuntime, error) {
	names := wellKnown
	if r.config.OCIRuntime != "" {
		names = []string{r.config.OCIRuntime}
	}
	var reasons []string
	installed := 0
	for _, name := range names {
		h, err := r.config.handler(name)
		if errdefs.IsNotFound(err) {
			h.Path, err = exec.LookPath(name)
		}
		if err == nil {
			h.Path, err = filepath.Abs(h.Path)
		}
		if err != nil {
			reasons = append(reasons, name+" is not installed")
			continue
		}
		installed++
		o, err := r.of(ctx, h)
		switch {
		case ctx.Err() != nil:
			return ociRuntime{}, ctx.Err()
		case err == nil:
			o.Why = strings.Join(reasons, ", ")
			return o, nil
		}
		reasons = append(reasons, err.Error())
	}
	return ociRuntime{}, &NoOCIRuntime{strings.Join(reasons, ", "), installed > 0}
}

// NoOCIRuntime is the error of a host on which no OCI runtime starts containers.
type NoOCIRuntime struct {
	reasons   string
	Installed bool // but it does not work
}

func (e *NoOCIRuntime) Error() string {
	help := "jobd doctor examines the rest of the host"
	if !e.Installed {
		help = "install one: apt install crun, or dnf install crun"
	}
	return fmt.Sprintf("no OCI runtime starts containers here: %s (%s)", e.reasons, help)
}

// of returns the runtime of a handler. The runtime has to run a container on this host before it is trusted.
func (r *runtimes) of(ctx context.Context, h runtime.Handler) (ociRuntime, error) {
	print, err := fingerprint(h.Args, h.Path)
	if err != nil {
		return ociRuntime{}, err
	}
	r.mu.Lock()
	known, ok := r.tested[print]
	r.mu.Unlock()
	if ok {
		return known, nil
	}
	outcome := r.testing.DoChan(print, func() (any, error) { return r.test(context.WithoutCancel(ctx), h, print) })
	select {
	case o := <-outcome:
		return o.Val.(ociRuntime), o.Err
	case <-ctx.Done():
		return ociRuntime{}, ctx.Err()
	}
}

func (r *runtimes) test(ctx context.Context, h runtime.Handler, print string) (ociRuntime, error) {
	full, err := fingerprint(h.Args, h.Path, r.config.ShimPath)
	if err != nil {
		return ociRuntime{}, err
	}
	o := ociRuntime{Path: h.Path, Args: h.Args, fingerprint: print}
	cache, command := layout.Root(r.config.Root).OCIRuntimes(), strings.Join(append([]string{h.Path}, h.Args...), " ")
	r.mu.Lock()
	v := readVerdicts(cache)[command]
	r.mu.Unlock()
	if o.Version = v.Version; v.Fingerprint != full {
		if o.Version, err = selfTest(ctx, r.config, r.shards.at(0), o); err != nil {
			return ociRuntime{}, fmt.Errorf("%s does not work here: %w", h.Path, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	verdicts := readVerdicts(cache)
	if works := (verdict{Fingerprint: full, Version: o.Version}); verdicts[command] != works {
		verdicts[command] = works
		if err := writeVerdicts(cache, verdicts); err != nil { // others may have filled the disk
			r.config.Logger.Warn("cannot keep that an OCI runtime works: the next start tries it again", "path", h.Path, "error", err)
		}
	}
	r.tested[print] = o
	return o, nil
}

// fingerprint identifies what the behaviour of programs depends on: the programs themselves, their options and the
// kernel.
func fingerprint(args []string, paths ...string) (string, error) {
	var kernel unix.Utsname
	if err := unix.Uname(&kernel); err != nil {
		return "", fmt.Errorf("name of the kernel: %w", err)
	}
	out := unix.ByteSliceToString(kernel.Release[:])
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		out += fmt.Sprintf(" %s:%d:%d", path, info.Size(), info.ModTime().UnixNano())
	}
	for _, arg := range args {
		out += fmt.Sprintf(" %q", arg)
	}
	return out, nil
}

func readVerdicts(path string) map[string]verdict {
	out := map[string]verdict{}
	if content, err := os.ReadFile(path); err == nil && json.Unmarshal(content, &out) != nil {
		return map[string]verdict{} // the tests are merely repeated
	}
	return out
}

func writeVerdicts(path string, verdicts map[string]verdict) error {
	content, err := json.MarshalIndent(verdicts, "", "\t")
	if err != nil {
		return err
	}
	return files.Replace(path, content, 0o600)
}

// selfTest runs a container in the same way as a pod's: by a shard, with limits, devices and a seccomp profile. The
// container runs the shards' own program, which prints its version. selfTest returns the version of the runtime.
func selfTest(ctx context.Context, c Config, s *shard.Shard, o ociRuntime) (version string, err error) {
	bounded, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	asked := exec.CommandContext(bounded, o.Path, append(slices.Clone(o.Args), "--version")...)
	asked.WaitDelay = time.Second
	said, err := asked.Output()
	if err != nil {
		return "", fmt.Errorf("--version: %w", err)
	}
	o.Version = parseVersion(filepath.Base(o.Path), said)
	return o.Version, runSelfTest(ctx, c, s, o)
}

func runSelfTest(ctx context.Context, c Config, s *shard.Shard, o ociRuntime) error {
	return runProbe(ctx, c, s, o, "--version", nil, func(id, log string) error {
		for {
			list, err := s.List(ctx)
			if err != nil {
				return err
			}
			for _, one := range list {
				switch {
				case one.ID != id || !one.State.Ended():
				case one.State == protocol.Exited && one.ExitCode == 0:
					return nil
				default:
					output, _ := os.ReadFile(log)
					return fmt.Errorf("a container that prints its version ends as %s with %d: %s", one.State,
						one.ExitCode, output)
				}
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Millisecond):
			}
		}
	})
}

// parseVersion returns "crun 1.8.1" for "crun version 1.8.1\n...", and the name of the file for a program that prints
// nothing.
func parseVersion(file string, said []byte) string {
	line, _, _ := bytes.Cut(said, []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) == 0 {
		return file
	}
	return fields[0] + " " + fields[len(fields)-1]
}
