package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"

	"github.com/jobd/jobd/cmd/internal/overssh"
	"github.com/jobd/jobd/cmd/internal/submit"
	"github.com/jobd/jobd/internal/redirects"
	"github.com/jobd/jobd/internal/systemd"
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
	users   bool // the socket is that of all users of the machine
	// stranger: jobd has given whoever runs this no namespace there.
	stranger bool
	own      string // the namespace that jobd has given them
	verb     string // the command, without what is below it; empty if the arguments name none
	// context is where the socket was found, kubeconfig its file, empty if that is the default, and namespace what it begins in.
	context, kubeconfig, namespace string
	named                          bool   // by --socket or --server
	broken                         error  // why there is none
	place                          string // what messages call the server of --on
}

// findTarget finds the command that the arguments name, and reads them with that command's flags, as cobra does later. With
// fewer flags known, the value of another one could be taken for --server: -ojson has an s.
func findTarget(root *cobra.Command, args []string) (target, error) {
	var typed []string // what a shell completes: it may be half a word, or the value of a flag
	if len(args) > 0 && slices.Contains(completionVerbs, args[0]) {
		last := max(1, len(args)-1)
		args, typed = args[1:last], args[last:]
	}
	c, rest, _ := root.Find(args) // the root if there is no such command, which is an error of cobra's later
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	c.InheritedFlags() // merges those of its parents into its own
	of := root.PersistentFlags()
	given := map[*pflag.Flag]string{}
	if !c.DisableFlagParsing {
		// After an error the command does not run.
		_ = c.Flags().ParseAll(append(slices.Clone(rest), typed...), func(f *pflag.Flag, value string) error {
			given[f] = value
			return nil
		})
	}
	t := target{socket: of.Lookup("socket").DefValue}
	for ; c.HasParent(); c = c.Parent() {
		t.verb = c.Name()
	}
	for _, name := range []string{"kubeconfig", "context", "server"} {
		// A command may have a flag of its own with such a name, as "config set-cluster" has.
		if _, ok := given[of.Lookup(name)]; ok {
			t.cluster = true
		}
	}
	t.kubeconfig, t.context = given[of.Lookup("kubeconfig")], given[of.Lookup("context")]
	_, server := given[of.Lookup("server")]
	socket, ok := given[of.Lookup("socket")]
	if ok && t.cluster {
		return target{}, errTwoTargets
	}
	if socket != "" {
		t.socket = socket
	}
	t.named = ok || server
	return t, nil
}

// completionVerbs are the commands that the scripts of shells call.
var completionVerbs = []string{cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}

// socketOf returns the socket that is used without --socket.
func socketOf(getenv func(string) string) string {
	return cmp.Or(getenv(socketVariable), defaultSocket)
}

// wrap makes the commands use the socket, unless they speak to a cluster, which is known only after kubectl has made them.
func (t *target) wrap(dial dialFunc) func(*rest.Config) *rest.Config {
	return func(c *rest.Config) *rest.Config {
		if t.cluster {
			redirects.Refuse(c)
			return c
		}
		c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
		c.Proxy = nil
		c.Wrap(onSocket(dial))
		redirects.Refuse(c)
		c.QPS, c.Burst = 300, 600 // the daemon does its own limiting
		return c
	}
}

// onlySocket keeps the commands from using anything of the user's kubeconfig, unless one of its contexts has led to the socket: that may
// have a namespace.
func (t *target) onlySocket(flags *genericclioptions.ConfigFlags) {
	*flags.APIServer = host
	if address, err := overssh.Parse(t.socket, defaultSocket); err == nil && overssh.Is(t.socket) {
		*flags.APIServer = host + "-" + address.Key() // what kubectl keeps of a server, its kinds, is not that of another one
	}
	if *flags.Context = t.context; t.context == "" && t.kubeconfig == "" {
		*flags.KubeConfig = os.DevNull
	}
}

// dialer connects to the socket. If the first attempt fails, it prints why and ends the program, since kubectl would
// retry and complain several times; but not if the program was only asked for its version. Later failures are returned,
// since the daemon may be restarting.
func (t *target) dialer(errOut io.Writer) dialFunc {
	var met atomic.Bool
	line := sync.OnceValue(func() dialFunc { return t.line(errOut) }) // the socket is known only after this function has been made
	return func(ctx context.Context) (net.Conn, error) {
		c, err := line()(ctx)
		if err == nil {
			met.Store(true)
			return c, nil
		}
		if !met.Load() && ctx.Err() == nil && t.verb != "version" {
			fmt.Fprintf(errOut, "error: %v\n", err)
			os.Exit(t.failed())
		}
		return nil, err
	}
}

// line returns what connects to the socket.
func (t *target) line(errOut io.Writer) dialFunc {
	if t.broken != nil {
		return func(context.Context) (net.Conn, error) { return nil, t.broken }
	}
	if overssh.Is(t.socket) {
		address, err := overssh.Parse(t.socket, defaultSocket)
		if err != nil {
			return func(context.Context) (net.Conn, error) { return nil, err }
		}
		return overssh.New(address, errOut).Dial
	}
	return func(ctx context.Context) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", t.socket)
		if err != nil {
			return nil, unreachable(err, t.socket)
		}
		return c, nil
	}
}

// failed is the exit code of a command that did not reach jobd.
func (t *target) failed() int {
	switch t.verb {
	case "submit", "follow": // theirs say how a Job has ended
		return submit.ExitCannot
	}
	return 1
}

// unreachable returns the error for a socket that cannot be reached, with what to do about it.
func unreachable(err error, socket string) (unreached error) {
	// A kubeconfig in the environment is meant for other programs; whoever has one that is for jobd should know how to use it.
	if file := os.Getenv("KUBECONFIG"); file != "" && (errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist)) {
		defer func() {
			unreached = fmt.Errorf("%w. $KUBECONFIG is not looked at: to use it, say --kubeconfig %s", unreached, file)
		}()
	}
	switch {
	case runtime.GOOS != "linux" && socket == defaultSocket:
		return fmt.Errorf("jobd runs on Linux only: name the machine of one, as $%s=ssh://HOST, or by jobctl context", socketVariable)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf(
			"permission denied on jobd's socket %s: use sudo, or join the group jobd (sudo usermod -aG jobd %s, then log in "+
				"again); its members are as good as root",
			socket, userName(),
		)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf(
			"jobd does not answer on %s: start it with %s, or name its socket by --socket or $%s; \"sudo jobd run\" runs a single Job without it",
			socket, starts(systemd.Runs()), socketVariable,
		)
	}
	return fmt.Errorf("jobd does not answer on %s: %w", socket, err)
}

// starts returns what starts jobd on this machine.
func starts(systemd bool) string {
	if systemd {
		return `"sudo systemctl start jobd" or "sudo jobd serve"`
	}
	return `"sudo jobd serve"`
}

func userName() string {
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	return "$USER"
}
