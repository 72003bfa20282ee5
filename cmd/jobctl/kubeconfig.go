package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// newKubeconfigCommand makes the command that prints what kubectl and other clients need to reach the daemon over the
// network.
func newKubeconfigCommand(
	dial func(context.Context) (net.Conn, error), streams genericiooptions.IOStreams,
) *cobra.Command {
	var role, namespace, user string
	var groups []string
	cmd := &cobra.Command{
		Use:                   "kubeconfig [--role read|submit|admin | --user NAME [--group GROUP]...] [--namespace NAMESPACE]",
		DisableFlagsInUseLine: true,
		Short:                 "Print a kubeconfig for the address that jobd listens on",
		Long: `Print a kubeconfig for the address that jobd listens on (jobd serve --listen). For the role admin in all namespaces, which is the default, it holds the administrator's token: keep it to yourself. With another --role, or with --namespace, it holds a certificate, valid for a year, for someone who may only read, or only submit Jobs, or do anything in that namespace alone.

With --user, it holds a certificate, valid for a year, for a user of that name in the groups of --group, who may do what RoleBindings and ClusterRoleBindings grant to the user or the groups, and nothing more. Commands with it begin in the namespace of --namespace.

Anyone who may submit Jobs to a namespace that allows privileged pods can become root of the host. Every namespace allows them unless its label pod-security.kubernetes.io/enforce, or the default (jobd serve --pod-security-enforce), is baseline or restricted. A warning names the namespaces concerned.`,
		Example: `  # For yourself, with all rights
  jobctl kubeconfig > ~/.kube/jobd

  # For a colleague who submits Jobs in one namespace
  jobctl kubeconfig --role submit --namespace team > colleague.kubeconfig

  # For Ann, who may look at what is in one namespace
  jobctl kubeconfig --user ann --group team --namespace team > ann.kubeconfig
  jobctl create rolebinding team-views --clusterrole view --group team --namespace team`,
		Args: cobra.NoArgs,
		Run: func(c *cobra.Command, _ []string) {
			query := url.Values{"namespace": {namespace}, "user": {user}, "group": groups}
			if c.Flags().Changed("user") && user == "" {
				cmdutil.CheckErr(errors.New("--user needs a name"))
			}
			if user == "" || c.Flags().Changed("role") {
				query.Set("role", role)
			}
			cmdutil.CheckErr(printKubeconfig(c.Context(), dial, query, streams))
		},
	}
	cmd.Flags().StringVar(&role, "role", "admin", "what it allows: read, submit or admin")
	cmd.Flags().StringVar(&user, "user", "", "a user whose rights come from bindings, instead of a role")
	cmd.Flags().StringArrayVar(&groups, "group", nil, "a group that the user is in; can be repeated")
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "the only namespace that it is valid for (default all)")
	return cmd
}

func printKubeconfig(
	ctx context.Context, dial func(context.Context) (net.Conn, error), query url.Values,
	streams genericiooptions.IOStreams,
) error {
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}}
	defer client.CloseIdleConnections()
	if ctx == nil {
		ctx = context.Background()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, host+"/jobd/v1/kubeconfig?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(body)))
	}
	warnings, _ := utilnet.ParseWarningHeaders(resp.Header.Values("Warning"))
	for _, w := range warnings {
		fmt.Fprintf(streams.ErrOut, "Warning: %s\n", w.Text)
	}
	_, err = streams.Out.Write(body)
	return err
}
