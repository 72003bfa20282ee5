package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/forward"
)

// forwarding is one `jobd forward`.
type forwarding struct {
	options                       forward.Options
	socket, access                string // of the daemon
	kubeconfig, context, logLevel string
}

func newForwardCommand() *cobra.Command {
	w := &forwarding{}
	cmd := &cobra.Command{
		Use:   "forward --cluster NAME [--kubeconfig FILE] [--context NAME]",
		Short: "Run the Jobs of a cluster there, and bring back what becomes of them",
		Long: `Run the Jobs whose spec.managedBy is clusters.jobd.dev/NAME in a cluster: each under its own name, once. Its status, pods, logs and events
come back, so that all commands show it as any other Job. It goes on in the cluster while this machine is off.

This is a process of its own beside the daemon, with the kubeconfig of whoever runs it, whose credential plugins work: the daemon knows nothing
of the cluster. It may be ended and started at any time. One is needed for each cluster; jobd-forward@.service runs one for systemd.

ConfigMaps go with the Jobs that name them, Secrets only with --secrets. Claims, accounts and classes have to be in the cluster; a Job
that would not run there as it does here waits, and its status says for what.`,
		Example: `  # As the user who has access to the cluster
  jobd forward --cluster prod --context prod-eu

  # Jobs of the namespace default run in that of a team there
  jobd forward --cluster prod --kubeconfig /etc/jobd/prod.kubeconfig --namespace default=team-a`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return w.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&w.options.Cluster, "cluster", "", "the name by which Jobs choose the cluster: managedBy: clusters.jobd.dev/NAME")
	flags.StringVar(&w.kubeconfig, "kubeconfig", "", "file with the access to the cluster (default $KUBECONFIG or ~/.kube/config)")
	flags.StringVar(&w.context, "context", "", "context of that file (default its current one)")
	flags.StringVar(&w.socket, "socket", cmp.Or(os.Getenv("JOBD_SOCKET"), "/run/jobd/jobd.sock"),
		"socket of the daemon, or that of its users; $JOBD_SOCKET sets it too")
	flags.StringVar(&w.access, "jobd-kubeconfig", "",
		"file with the access to the daemon, instead of its socket: for an account with the rights of jobd:forwarder alone")
	flags.StringToStringVar(&w.options.Namespaces, "namespace", nil,
		"forward only the Jobs of this namespace, into that of the cluster: HERE=THERE. May be given more than once (default all, into those of the same names)")
	flags.BoolVar(&w.options.Secrets, "secrets", false, "let Secrets leave this machine with the Jobs that name them")
	flags.StringVar(&w.logLevel, "log-level", "info", "debug, info, warn or error")
	_ = cmd.MarkFlagFilename("kubeconfig") // it fails only for a flag that there is not
	return cmd
}

func (w *forwarding) run(ctx context.Context) (err error) {
	if w.options.Cluster == "" {
		return errors.New("--cluster is missing: the name by which Jobs choose the cluster")
	}
	if wrong := utilvalidation.IsDNS1123Label(w.options.Cluster); len(wrong) > 0 { // it stands for a node
		return fmt.Errorf("--cluster: %s", wrong[0])
	}
	const longest = 63 // of managedBy
	if name := clusters.Manager(w.options.Cluster); len(name) > longest {
		return fmt.Errorf("--cluster: %s has more than %d characters", name, longest)
	}
	if w.access == "" && strings.Contains(w.socket, "://") { // of $JOBD_SOCKET, where jobctl takes ssh://HOST
		return fmt.Errorf("--socket: %s is on another machine: a forwarder runs beside the daemon, or has --jobd-kubeconfig", w.socket)
	}
	if len(w.options.Namespaces) == 0 {
		w.options.Namespaces = nil
	}
	if w.options.Logger, err = newLogger(os.Stderr, w.logLevel); err != nil {
		return err
	}
	w.options.Logger = w.options.Logger.With("cluster", w.options.Cluster)
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = w.kubeconfig
	if w.options.Remote, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: w.context}).
		ClientConfig(); err != nil {
		return err
	}
	const perSecond = 200 // requests; the cluster has its own limits
	w.options.Remote.QPS, w.options.Remote.Burst = perSecond, 2*perSecond
	w.options.Remote.UserAgent = "jobd-forward/" + version
	klog.SetSlogLogger(slog.New(forward.Quiet(w.options.Logger.Handler(), w.options.Remote.Host)))
	w.options.Local = &rest.Config{
		Host: "http://jobd",
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", w.socket)
		},
	}
	if w.access != "" {
		if w.options.Local, err = clientcmd.BuildConfigFromFlags("", w.access); err != nil {
			return err
		}
	}
	w.options.Local.QPS, w.options.Local.WarningHandler, w.options.Local.UserAgent = -1, rest.NoWarnings{}, w.options.Remote.UserAgent
	f, err := forward.New(w.options)
	if err != nil {
		return err
	}
	w.options.Logger.Info("forwarding begins",
		"managedBy", clusters.Manager(w.options.Cluster), "server", w.options.Remote.Host, "jobd", cmp.Or(w.access, w.socket))
	return f.Run(ctx)
}
