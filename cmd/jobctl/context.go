package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/jobd/jobd/cmd/internal/overssh"
	"github.com/jobd/jobd/internal/printable"
)

// localContext stands for the socket of this machine among the contexts.
const localContext = "local"

// byContext makes the target the jobd on another machine that a context leads to by ssh: the context that the arguments name, or else
// the one that "jobctl context use" has chosen. Every other context is a cluster's, and left to kubectl.
func (t *target) byContext(getenv func(string) string) {
	chosen := ""
	if !t.cluster && !t.named && getenv(socketVariable) == "" {
		chosen = chosenContext()
		t.context = chosen
	}
	if chosen == "" && (!t.cluster || t.named) {
		return
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = t.kubeconfig
	all, err := rules.Load()
	if err != nil {
		all = clientcmdapi.NewConfig() // kubectl says what is wrong with it
	}
	if t.context == "" {
		t.context = all.CurrentContext
	}
	if server := serverOf(all, t.context); overssh.Is(server) {
		t.cluster, t.socket, t.namespace = false, server, all.Contexts[t.context].Namespace
		return
	}
	t.context, t.kubeconfig = "", ""
	if chosen != "" {
		t.broken = fmt.Errorf("the context %q, which \"jobctl context use\" has chosen, leads to no machine any more: add it again (jobctl context add), "+
			"or choose another one, or \"jobctl context use %s\" for the jobd of this machine", chosen, localContext)
	}
}

// serverOf returns the server of a context; empty if there is none.
func serverOf(all *clientcmdapi.Config, name string) string {
	if c := all.Contexts[name]; c != nil {
		if cluster := all.Clusters[c.Cluster]; cluster != nil {
			return cluster.Server
		}
	}
	return ""
}

// chosenFile keeps the name of the context that was chosen. It is not the current context of the kubeconfig, since kubectl cannot use one
// of this kind, and its own must not lead jobctl to a cluster.
func chosenFile() (string, error) {
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "jobctl", "context"), err
}

// chosenContext returns the name of the context that was chosen; empty if none was.
func chosenContext() string {
	path, err := chosenFile()
	if err != nil {
		return "" // there is no home
	}
	name, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(name))
}

// choose stores the name of a context; local removes it.
func choose(name string) error {
	path, err := chosenFile()
	if err != nil {
		return err
	}
	if name == localContext {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(name+"\n"), 0o600)
}

// newContextCommand makes the command that keeps the names of jobds on other machines.
func newContextCommand(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	c := &contexts{flags: flags, IOStreams: streams}
	cmd := &cobra.Command{
		Use:                   "context",
		DisableFlagsInUseLine: true,
		Short:                 "Name jobds on other machines, which are reached by ssh",
		Long: `Name jobds on other machines, which are reached by ssh. A context is the name of one in the kubeconfig; --context NAME uses it for one command, and "jobctl context use NAME" for all that name no other server (--socket, $JOBD_SOCKET, --context, --kubeconfig, --server).

An address is ssh://[USER@]HOST[:PORT][/PATH]: HOST is what the program ssh takes, a name of ~/.ssh/config for example, and PATH that of jobd's socket there. Nothing has to be set up on that machine but a login by ssh, of a user who may use jobd there. The commands share one connection, which ends five minutes after the last of them.`,
		Example: `  # A machine that "ssh lab" logs in to
  jobctl context add lab ssh://lab
  jobctl --context lab get jobs

  # From now on all commands go there, and from now on to this machine again
  jobctl context use lab
  jobctl context use local`,
		Args: cobra.NoArgs,
		Run:  func(*cobra.Command, []string) { cmdutil.CheckErr(c.list()) },
	}
	var namespace string
	add := &cobra.Command{
		Use:                   "add NAME ssh://[USER@]HOST[:PORT][/PATH] [--namespace NAMESPACE]",
		DisableFlagsInUseLine: true,
		Short:                 "Name a jobd on another machine, or change its address",
		Example:               "  jobctl context add lab ssh://ann@lab.example.org:2222 --namespace ann",
		Args:                  cobra.ExactArgs(2),
		ValidArgsFunction:     cobra.NoFileCompletions,
		Run:                   func(_ *cobra.Command, args []string) { cmdutil.CheckErr(c.add(args[0], args[1], namespace)) },
	}
	add.Flags().StringVarP(&namespace, "namespace", "n", "", "The namespace in which commands begin there (default \"default\")")
	cmd.AddCommand(add,
		&cobra.Command{
			Use:                   "list",
			Aliases:               []string{"ls"},
			DisableFlagsInUseLine: true,
			Short:                 "List the contexts that are reached by ssh",
			Example:               "  jobctl context list",
			Args:                  cobra.NoArgs,
			Run:                   func(*cobra.Command, []string) { cmdutil.CheckErr(c.list()) },
		},
		&cobra.Command{
			Use:                   "use NAME",
			DisableFlagsInUseLine: true,
			Short:                 "Choose the machine for all commands that name none; \"" + localContext + "\" is this one",
			Example:               "  jobctl context use lab\n  jobctl context use local",
			Args:                  cobra.ExactArgs(1),
			ValidArgsFunction:     c.complete(localContext),
			Run:                   func(_ *cobra.Command, args []string) { cmdutil.CheckErr(c.use(args[0])) },
		},
		&cobra.Command{
			Use:                   "remove NAME",
			Aliases:               []string{"rm"},
			DisableFlagsInUseLine: true,
			Short:                 "Forget a jobd on another machine",
			Example:               "  jobctl context remove lab",
			Args:                  cobra.ExactArgs(1),
			ValidArgsFunction:     c.complete(),
			Run:                   func(_ *cobra.Command, args []string) { cmdutil.CheckErr(c.remove(args[0])) },
		},
	)
	return cmd
}

// contexts are those of the kubeconfig that lead to other machines by ssh.
type contexts struct {
	flags *genericclioptions.ConfigFlags
	genericiooptions.IOStreams
}

func (c *contexts) files() *clientcmd.PathOptions {
	files := clientcmd.NewDefaultPathOptions()
	files.LoadingRules.ExplicitPath = *c.flags.KubeConfig
	if files.LoadingRules.ExplicitPath == os.DevNull { // on the socket nothing is taken from it
		files.LoadingRules.ExplicitPath = ""
	}
	return files
}

func (c *contexts) names(all *clientcmdapi.Config) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all.Contexts)), func(name string) bool { return !overssh.Is(serverOf(all, name)) })
}

func (c *contexts) complete(also ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		all, err := c.files().GetStartingConfig()
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return append(c.names(all), also...), cobra.ShellCompDirectiveNoFileComp
	}
}

func (c *contexts) list() error {
	all, err := c.files().GetStartingConfig()
	if err != nil {
		return err
	}
	chosen := chosenContext()
	if chosen == "" {
		chosen = localContext
	}
	w := printers.GetNewTabWriter(c.Out)
	fmt.Fprintln(w, "CURRENT\tNAME\tADDRESS\tNAMESPACE")
	row := func(name, address, namespace string) {
		mark := ""
		if name == chosen {
			mark = "*"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", mark, printable.Line(name), printable.Line(address), printable.Line(namespace))
	}
	row(localContext, defaultSocket, "")
	for _, name := range c.names(all) {
		row(name, serverOf(all, name), all.Contexts[name].Namespace)
	}
	if socket := os.Getenv(socketVariable); socket != "" {
		fmt.Fprintf(c.ErrOut, "Note: $%s is set and goes before the current one: %s\n", socketVariable, printable.Line(socket))
	}
	return w.Flush()
}

func (c *contexts) add(name, address, namespace string) error {
	if !overssh.Is(address) {
		return fmt.Errorf("%q: the address of a jobd on another machine begins with ssh://; for one that listens on a port, see jobctl kubeconfig", address)
	}
	if _, err := overssh.Parse(address, defaultSocket); err != nil {
		return err
	}
	if name == "" || name == localContext {
		return fmt.Errorf("a context cannot be called %q: %s is the jobd of this machine", name, localContext)
	}
	files := c.files()
	all, err := files.GetStartingConfig()
	if err != nil {
		return err
	}
	was, changed := all.Contexts[name]
	if changed && !overssh.Is(serverOf(all, name)) {
		return fmt.Errorf("the kubeconfig has another context %q, of a cluster: choose another name", name)
	}
	if cluster := all.Clusters[name]; cluster != nil && !overssh.Is(cluster.Server) {
		return fmt.Errorf("the kubeconfig has a cluster %q with another address: choose another name", name)
	}
	if changed && namespace == "" {
		namespace = was.Namespace
	}
	cluster, at := clientcmdapi.NewCluster(), clientcmdapi.NewContext()
	cluster.Server = address
	at.Cluster, at.Namespace = name, namespace
	all.Clusters[name], all.Contexts[name] = cluster, at
	if err := clientcmd.ModifyConfig(files, *all, true); err != nil {
		return err
	}
	if changed {
		fmt.Fprintf(c.Out, "context %s changed\n", name)
		return nil
	}
	fmt.Fprintf(c.Out, "context %s added: jobctl --context %s get jobs; for all commands: jobctl context use %s\n", name, name, name)
	return nil
}

func (c *contexts) use(name string) error {
	where := "the jobd of this machine"
	if name != localContext {
		all, err := c.files().GetStartingConfig()
		if err != nil {
			return err
		}
		if where = serverOf(all, name); !overssh.Is(where) {
			return fmt.Errorf("there is no context %q that is reached by ssh: jobctl context list", name)
		}
	}
	if err := choose(name); err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "commands go to %s\n", where)
	return nil
}

func (c *contexts) remove(name string) error {
	files := c.files()
	all, err := files.GetStartingConfig()
	if err != nil {
		return err
	}
	if !overssh.Is(serverOf(all, name)) {
		return fmt.Errorf("there is no context %q that is reached by ssh: jobctl context list", name)
	}
	cluster := all.Contexts[name].Cluster
	delete(all.Contexts, name)
	if !slices.ContainsFunc(slices.Collect(maps.Values(all.Contexts)), func(c *clientcmdapi.Context) bool { return c.Cluster == cluster }) {
		delete(all.Clusters, cluster)
	}
	if all.CurrentContext == name {
		all.CurrentContext = ""
	}
	if err := clientcmd.ModifyConfig(files, *all, true); err != nil {
		return err
	}
	if chosenContext() == name {
		if err := choose(localContext); err != nil {
			return err
		}
		fmt.Fprintf(c.Out, "context %s removed: commands go to the jobd of this machine\n", name)
		return nil
	}
	fmt.Fprintf(c.Out, "context %s removed\n", name)
	return nil
}
