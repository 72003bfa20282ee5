package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
)

const (
	socketVariable = "JOBD_SOCKET"
	defaultSocket  = "/run/jobd/jobd.sock"
	// host stands for the daemon in URLs: every connection goes to the socket.
	host = "http://jobd"
)

// target is the server that the commands speak to.
type target struct {
	cluster bool // the server that kubectl would use with the same arguments
	socket  string
	verb    string // the first argument that is not a flag
}

// findTarget reads the few arguments that decide it, wherever they stand, and leaves all others to the commands.
func findTarget(args []string, getenv func(string) string) (target, error) {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.ParseErrorsAllowlist.UnknownFlags = true
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	socket := set.String("socket", "", "")
	set.String("kubeconfig", "", "")
	set.String("context", "", "")
	set.StringP("server", "s", "", "")
	set.BoolP("help", "h", false, "")
	if err := set.Parse(args); err != nil {
		return target{}, nil // the commands report it better
	}
	t := target{socket: *socket, verb: set.Arg(0)}
	t.cluster = set.Changed("kubeconfig") || set.Changed("context") || set.Changed("server")
	if t.cluster && set.Changed("socket") {
		return target{}, errTwoTargets
	}
	if t.socket == "" {
		t.socket = getenv(socketVariable)
	}
	if t.socket == "" {
		t.socket = defaultSocket
	}
	return t, nil
}

// bind makes the commands use the socket, and nothing from the user's kubeconfig.
func (t target) bind(flags *genericclioptions.ConfigFlags, errOut io.Writer) {
	server, nothing := host, os.DevNull
	flags.APIServer = &server
	flags.KubeConfig = &nothing
	dial := t.dialer(errOut)
	flags.WithWrapConfigFn(func(c *rest.Config) *rest.Config {
		c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
		c.Proxy = nil
		c.Wrap(onSocket(dial))
		c.QPS, c.Burst = 300, 600 // the daemon does its own limiting
		return c
	})
}

// dialer connects to the socket. If the first attempt fails, it prints why and ends the program, since kubectl would
// retry and complain several times; but not if the program was only asked for its version. Later failures are returned,
// since the daemon may be restarting.
func (t target) dialer(errOut io.Writer) func(context.Context) (net.Conn, error) {
	var met atomic.Bool
	return func(ctx context.Context) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", t.socket)
		if err == nil {
			met.Store(true)
			return c, nil
		}
		err = unreachable(err, t.socket)
		if !met.Load() && ctx.Err() == nil && t.verb != "version" {
			fmt.Fprintf(errOut, "error: %v\n", err)
			os.Exit(1)
		}
		return nil, err
	}
}

// unreachable returns the error for a socket that cannot be reached, with what to do about it.
func unreachable(err error, socket string) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("permission denied on jobd's socket %s: use sudo, or join the group jobd (sudo usermod -aG jobd %s, then log in again); its members are as good as root", socket, userName())
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("jobd does not answer on %s: start it with \"sudo systemctl start jobd\" or \"sudo jobd serve\", or name its socket by --socket or $%s; \"sudo jobd run\" runs a single Job without it", socket, socketVariable)
	}
	return fmt.Errorf("jobd does not answer on %s: %w", socket, err)
}

func userName() string {
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	return "$USER"
}
