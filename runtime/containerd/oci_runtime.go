package containerd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/atomicfile"
	"github.com/jobd/jobd/layout"
	"github.com/jobd/jobd/runtime/shard"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

// ociRuntime is the program that makes containers out of specs, and why it was chosen.
type ociRuntime struct {
	Path    string
	Version string // "crun 1.8.1"
	Why     string // "" if it was asked for or the first choice
}

func (o ociRuntime) String() string {
	if o.Why == "" {
		return fmt.Sprintf("%s (%s)", o.Version, o.Path)
	}
	return fmt.Sprintf("%s (%s; %s)", o.Version, o.Path, o.Why)
}

// verdict is the outcome of a self-test. One that it works is kept for as long as nothing that it depends on has
// changed; a failure is not, as it may be the host's of that moment: one that is busy, or full, or lacks a mount.
type verdict struct {
	Fingerprint string `json:"fingerprint"`
	Version     string `json:"version"`
	Failure     string `json:"failure,omitempty"`
}

// chooseOCIRuntime chooses the runtime that is asked for, or else crun, which is faster, or else runc. It has to run a
// container on this host before it is trusted.
func chooseOCIRuntime(ctx context.Context, c Config, s *shards) (ociRuntime, error) {
	names := []string{"crun", "runc"}
	if c.OCIRuntime != "" {
		names = []string{c.OCIRuntime}
	}
	cache := layout.Root(c.Root).OCIRuntimes()
	verdicts := readVerdicts(cache)
	var reasons []string
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			reasons = append(reasons, name+" is not installed")
			continue
		}
		if path, err = filepath.Abs(path); err != nil {
			return ociRuntime{}, err
		}
		print, err := fingerprint(path, c.ShimPath)
		if err != nil {
			return ociRuntime{}, err
		}
		v := verdicts[path]
		if v.Fingerprint != print || v.Failure != "" {
			if v = selfTest(ctx, c, s.at(0), path); ctx.Err() != nil {
				return ociRuntime{}, ctx.Err()
			}
			v.Fingerprint = print
		}
		if v.Failure == "" && verdicts[path] != v {
			verdicts[path] = v
			if err := writeVerdicts(cache, verdicts); err != nil {
				return ociRuntime{}, err
			}
		}
		if v.Failure == "" {
			return ociRuntime{Path: path, Version: v.Version, Why: strings.Join(reasons, ", ")}, nil
		}
		reasons = append(reasons, fmt.Sprintf("%s does not work here: %s", path, v.Failure))
	}
	return ociRuntime{}, fmt.Errorf("no OCI runtime: %s (Debian, Ubuntu: apt install crun)",
		strings.Join(reasons, ", "))
}

// fingerprint identifies everything that a verdict depends on: the programs and the kernel.
func fingerprint(paths ...string) (string, error) {
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
	return out, nil
}

func readVerdicts(path string) map[string]verdict {
	out := map[string]verdict{}
	if content, err := os.ReadFile(path); err == nil && json.Unmarshal(content, &out) != nil {
		return map[string]verdict{} // the test is only done again
	}
	return out
}

func writeVerdicts(path string, verdicts map[string]verdict) error {
	content, err := json.MarshalIndent(verdicts, "", "\t")
	if err != nil {
		return err
	}
	return atomicfile.Write(path, content, 0o600)
}

// selfTest runs a container as a pod's is run: by a shard, with the limits, the devices and the seccomp profile of
// one. Its program is the shards' own, which prints its version.
func selfTest(ctx context.Context, c Config, s *shard.Shard, path string) verdict {
	bounded, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	asked := exec.CommandContext(bounded, path, "--version")
	asked.WaitDelay = time.Second
	version, err := asked.Output()
	if err != nil {
		return verdict{Failure: fmt.Sprintf("--version: %v", err)}
	}
	name := filepath.Base(path)
	v := verdict{Version: parseVersion(name, version)}
	if err := runSelfTest(ctx, c, s, path); err != nil {
		v.Failure = err.Error()
	}
	return v
}

func runSelfTest(ctx context.Context, c Config, s *shard.Shard, path string) error {
	return runProbe(ctx, c, s, path, "--version", nil, func(id, log string) error {
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

// parseVersion takes "crun 1.8.1" out of "crun version 1.8.1\n...".
func parseVersion(name string, output []byte) string {
	line, _, _ := bytes.Cut(output, []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) == 0 {
		return name
	}
	return name + " " + fields[len(fields)-1]
}
