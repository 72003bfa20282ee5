package oci

import (
	"fmt"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// ErrNoCommand is the only error of Spec that in a cluster the runtime finds, not the kubelet.
var ErrNoCommand = errdefs.ErrInvalidArgument.WithMessage("no command specified")

func process(in Input, environment *containerEnv) (*specs.Process, error) {
	args, err := commandLine(in, environment)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		return nil, fmt.Errorf("container %q: %w, and the image has none", in.Container.Name, ErrNoCommand)
	}
	return &specs.Process{Args: args, Env: environment.process, Cwd: workingDir(in), Terminal: in.Container.TTY}, nil
}

// commandLine puts the pod's command in place of the image's entrypoint, and the pod's args in place of the image's
// command. If the pod has only a command, the image's command is dropped too. $(VAR) refers to the container's own
// variables, not to the image's.
func commandLine(in Input, environment *containerEnv) ([]string, error) {
	command, err := environment.expandAll(in.Container.Command)
	if err != nil {
		return nil, err
	}
	args, err := environment.expandAll(in.Container.Args)
	if err != nil {
		return nil, err
	}
	if len(command) == 0 {
		if command = in.Image.Entrypoint; slices.Equal(command, []string{""}) {
			command = nil // a Dockerfile's ENTRYPOINT [""], by which an image gives up that of its base
		}
		if len(args) == 0 {
			args = in.Image.Cmd
		}
	}
	return append(append([]string(nil), command...), args...), nil
}

func workingDir(in Input) string {
	switch {
	case in.Container.WorkingDir != "":
		return in.Container.WorkingDir
	case in.Image.WorkingDir != "":
		return in.Image.WorkingDir
	}
	return "/"
}
