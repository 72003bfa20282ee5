package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/jobd/jobd/internal/ask"
	"github.com/jobd/jobd/internal/files"
)

// newKubeconfigCommand makes the command that prints what kubectl and other clients need to reach the daemon over the
// network.
func newKubeconfigCommand(
	dial func(context.Context) (net.Conn, error), streams genericiooptions.IOStreams,
) *cobra.Command {
	var role, namespace, user string
	var groups []string
	var file kubeconfigFile
	cmd := &cobra.Command{
		Use:                   "kubeconfig [--role read|submit|admin | --user NAME [--group GROUP]...] [--namespace NAMESPACE] [--name NAME] [--server URL] [-o FILE]",
		DisableFlagsInUseLine: true,
		Short:                 "Print a kubeconfig for the address that jobd listens on",
		Long: `Print a kubeconfig for the address that jobd listens on (jobd serve --listen). For the role admin in all namespaces, which is the default, it holds the administrator's token: keep it to yourself. With another --role, or with --namespace, it holds a certificate, valid for a year, for someone who may only read, or only submit Jobs, or do anything in that namespace alone.

With --user, it holds a certificate, valid for a year, for a user of that name in the groups of --group, who may do what RoleBindings and ClusterRoleBindings grant to the user or the groups, and nothing more. Commands with it begin in the namespace of --namespace.

Anyone who may submit Jobs to a namespace that allows privileged pods can become root of the host. Every namespace allows them unless its label pod-security.kubernetes.io/enforce, or the default (jobd serve --pod-security-enforce), is baseline or restricted. A warning names the namespaces concerned.`,
		Example: `  # For yourself, with all rights
  jobctl kubeconfig -o ~/.kube/jobd

  # For a machine that is reached by a tunnel (ssh -L 7443:127.0.0.1:6443 big-box), beside others in one kubeconfig
  jobctl kubeconfig --name big-box --server https://127.0.0.1:7443 -o ~/.kube/big-box

  # For a colleague who submits Jobs in one namespace
  jobctl kubeconfig --role submit --namespace team -o colleague.kubeconfig

  # For Ann, who may look at what is in one namespace
  jobctl kubeconfig --user ann --group team --namespace team -o ann.kubeconfig
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
			cmdutil.CheckErr(printKubeconfig(c.Context(), dial, query, file, streams))
		},
	}
	cmd.Flags().StringVar(&role, "role", "admin", "what it allows: read, submit or admin")
	cmd.Flags().StringVar(&user, "user", "", "a user whose rights come from bindings, instead of a role")
	cmd.Flags().StringArrayVar(&groups, "group", nil, "a group that the user is in; can be repeated")
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "the only namespace that it is valid for (default all)")
	cmd.Flags().StringVar(&file.name, "name", kubeconfigName, "the name of its cluster, user and context; those of several kubeconfigs have to differ")
	cmd.Flags().StringVar(&file.server, "server", "", "the address that its user reaches jobd at, if that is another one: of a tunnel, say (https://127.0.0.1:7443)")
	cmd.Flags().StringVarP(&file.path, "output", "o", "", "the file to write it to, which nobody else can read (default the standard output)")
	return cmd
}

func printKubeconfig(
	ctx context.Context, dial func(context.Context) (net.Conn, error), query url.Values, file kubeconfigFile,
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
	if resp.StatusCode != http.StatusOK {
		return ask.Refused(resp)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	warnings, _ := utilnet.ParseWarningHeaders(resp.Header.Values("Warning"))
	for _, w := range warnings {
		fmt.Fprintf(streams.ErrOut, "Warning: %s\n", w.Text)
	}
	if body, err = file.rename(body); err != nil {
		return err
	}
	if file.path != "" {
		return files.Replace(file.path, body, 0o600)
	}
	_, err = streams.Out.Write(body)
	return err
}

// kubeconfigName is the name that the daemon gives everything in a kubeconfig.
const kubeconfigName = "jobd"

// kubeconfigFile is how a kubeconfig is written.
type kubeconfigFile struct{ name, server, path string }

// rename returns the kubeconfig with the names and the server that were asked for.
func (k *kubeconfigFile) rename(text []byte) ([]byte, error) {
	if k.name == kubeconfigName && k.server == "" {
		return text, nil
	}
	if k.name == "" {
		return nil, errors.New("--name needs a name")
	}
	c, err := clientcmd.Load(text)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig of the daemon: %w", err)
	}
	cluster, user, at := c.Clusters[kubeconfigName], c.AuthInfos[kubeconfigName], c.Contexts[kubeconfigName]
	if cluster == nil || user == nil || at == nil {
		return nil, errors.New("the kubeconfig of the daemon has other names than are expected: it is an older daemon, or a newer one")
	}
	if k.server != "" {
		if u, err := url.Parse(k.server); err != nil || u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("--server %q: an address is https://HOST:PORT", k.server)
		}
		cluster.Server = k.server
	}
	at.Cluster, at.AuthInfo = k.name, k.name
	c.Clusters, c.AuthInfos = map[string]*clientcmdapi.Cluster{k.name: cluster}, map[string]*clientcmdapi.AuthInfo{k.name: user}
	c.Contexts, c.CurrentContext = map[string]*clientcmdapi.Context{k.name: at}, k.name
	return clientcmd.Write(*c)
}
