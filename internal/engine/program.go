package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/containerd/errdefs"
)

// inspectByProgram asks docker(1) or podman(1).
func (e Engine) inspectByProgram(ctx context.Context, name string) (Image, error) {
	said := &bytes.Buffer{}
	cmd := exec.CommandContext(ctx, e.Program, "image", "inspect", name)
	cmd.Stderr, cmd.WaitDelay = said, time.Second
	out, err := cmd.Output()
	if err != nil {
		return Image{}, e.failed(name, err, said.String())
	}
	var list []inspected
	if err := json.Unmarshal(out, &list); err != nil || len(list) != 1 {
		return Image{}, fail(errdefs.ErrUnavailable, "%s image inspect %s says something else than what the image is", e.Name, name)
	}
	return e.checked(name, list[0])
}

// saveByProgram has docker(1) or podman(1) write the archive.
func (e Engine) saveByProgram(ctx context.Context, id string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &saving{cancel: cancel, id: id, engine: e, cmd: exec.CommandContext(ctx, e.Program, "save", id)}
	s.cmd.Stderr, s.cmd.WaitDelay = &s.said, time.Second
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("%s save: %w", e.Name, err)
	}
	s.out = out
	return s, nil
}

// saving is what a program writes. Its end is that of the program, and its error if that fails.
type saving struct {
	engine Engine
	id     string
	out    io.Reader
	cmd    *exec.Cmd
	cancel context.CancelFunc
	said   bytes.Buffer
	end    error // of the program
}

func (s *saving) Read(p []byte) (int, error) {
	if s.end != nil {
		return 0, s.end
	}
	n, err := s.out.Read(p)
	if err == nil || n > 0 {
		return n, nil
	}
	if s.end = io.EOF; err != io.EOF {
		s.end = err
	}
	if failed := s.cmd.Wait(); failed != nil {
		s.end = s.engine.failed(s.id, failed, s.said.String())
	}
	return 0, s.end
}

func (s *saving) Close() error {
	s.cancel()
	if s.end == nil {
		_ = s.cmd.Wait() // it was killed
	}
	return nil
}

// failed says why a program has failed: in its own words, if it has any.
func (e Engine) failed(image string, err error, said string) error {
	words := oneLine(said)
	lower := strings.ToLower(words)
	_, ran := errors.AsType[*exec.ExitError](err)
	switch {
	case !ran:
		return fail(errdefs.ErrUnavailable, "%s: %w", e.Name, err)
	case strings.Contains(lower, "no such image") || strings.Contains(lower, "image not known"):
		return fail(errdefs.ErrNotFound, "%s has no image %s", e.Name, image)
	case words == "":
		return fail(errdefs.ErrUnavailable, "%s does not give image %s: %w", e.Name, image, err)
	}
	return fail(errdefs.ErrUnavailable, "%s does not give image %s: %s", e.Name, image, words)
}
