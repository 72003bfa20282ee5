// Command jobctl is kubectl for jobd: kubectl's own commands, on the daemon's socket, and a few more. It speaks only to the
// API, and imports nothing of the daemon but its pure decisions. With --kubeconfig, --server or --context it speaks to any
// other cluster.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/cli"
	klogs "k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/kuberc"

	"github.com/jobd/jobd/cmd/internal/manual"
	"github.com/jobd/jobd/cmd/internal/overssh"
	"github.com/jobd/jobd/cmd/internal/watch"
	"github.com/jobd/jobd/internal/ask"

	_ "github.com/jobd/jobd/cmd/internal/translations"

	// Clusters that are chosen by --kubeconfig may ask a program for credentials.
	_ "k8s.io/client-go/plugin/pkg/client/auth/exec"
)

// version is jobd's own, which --version prints. The linker sets it, and in k8s.io/component-base/version that of the
// client, which "jobctl version" compares with the server's.
var version = "unknown"

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	root, err := newCommand(os.Args, os.Getenv, streams)
	if err != nil {
		cmdutil.CheckErr(err)
	}
	if err := cli.RunNoErrOutput(root); err != nil {
		cmdutil.CheckErr(err)
	}
}

// ownVerbs are the commands that kubectl does not have.
var ownVerbs = []string{
	"submit", "follow", "move", "why", "retry", "suspend", "resume", "pause", "continue", "prioritize", "history", "results", "report", "watch", "simulate",
	"dashboard", "image", "notify", "kubeconfig", "fleet", "context", "man",
}

// newCommand makes the tree of commands. Which server it speaks to is decided when the commands and their flags are there,
// since nobody else can tell a flag from the value of another; what depends on that comes after it.
func newCommand(args []string, getenv func(string) string, streams genericiooptions.IOStreams) (*cobra.Command, error) {
	to := &target{}
	dial := to.dialer(streams.ErrOut)
	said := newWords(streams.ErrOut)
	cmdutil.BehaviorOnFatal(said.fatal)
	flags := genericclioptions.NewConfigFlags(true).WithDiscoveryBurst(300).WithDiscoveryQPS(50).WithWarningPrinter(streams)
	wrap := to.wrap(dial)
	flags.WithWrapConfigFn(func(c *rest.Config) *rest.Config {
		c = wrap(c)
		c.Wrap(said.refused.watch)
		return c
	})
	leaveUnreadablePreferences(args, streams.ErrOut)
	root, kubectls := kubectlCommand(args, flags, streams)
	root.Use, root.Version = "jobctl", version
	root.Short = "jobctl controls jobd"
	root.PersistentFlags().String("socket", socketOf(getenv), "The socket of jobd, or of one on another machine, by ssh: ssh://[USER@]HOST[:PORT][/PATH]; $"+
		socketVariable+" sets it too")
	klogs.AddFlags(root.PersistentFlags()) // as cli.RunNoErrOutput does, but before the arguments are read
	ofJobs := extendLogs(root, flags, streams)
	extendWait(root, flags, streams)
	said.refused.stranger = func() bool { return to.stranger }
	said.refused.own = func() string { return to.own }
	own := submitter{flags: flags, to: to, streams: streams, refused: &said.refused}
	extendRun(root, own)
	own.extendAttach(root)
	factory := cmdutil.NewFactory(cmdutil.NewMatchVersionFlags(flags))
	said.elsewhere = func(job string) string { return elsewhere(factory, job) }
	extendCreateJob(root, factory, kubectls)
	extendGet(root, factory, streams)
	extendExplain(root, streams.Out)
	extendTop(root, factory, streams)
	root.AddCommand(own.submitCommand(), own.followCommand(), own.moveCommand(), newWhyCommand(factory, streams, own.reach),
		newRetryCommand(factory, streams, own.words), newSuspendCommand(factory, streams), newResumeCommand(factory, streams),
		newPauseCommand(factory, streams), newContinueCommand(factory, streams), newPrioritizeCommand(factory, streams),
		newHistoryCommand(factory, streams), newReportCommand(factory, streams), newResultsCommand(factory, streams),
		watch.NewCommand(factory, streams, suspendOne),
		newSimulateCommand(factory, streams), newDashboardCommand(factory, streams), newImageCommand(dial, streams),
		newDfCommand(ask.Daemon(dial), streams), newNotifyCommand(ask.Daemon(dial), streams), newKubeconfigCommand(dial, streams),
		newContextCommand(flags, streams), newFleetCommand(factory, streams), newPassCommand(dial, streams), manual.Command("1"))
	said.addSkipUnknown(root)
	if err := runPlugin(root, args[1:]); err != nil {
		return nil, err
	}

	var err error
	if *to, err = findTarget(root, args[1:]); err != nil {
		return nil, err
	}
	to.byContext(getenv)
	said.cluster, said.verb = to.cluster, to.verb
	ofJobs.choose(to.cluster, overssh.Is(to.socket))
	if !to.cluster {
		if err := webSocketsOnly(); err != nil {
			return nil, err
		}
		to.onlySocket(flags)
		if to.takeUsersSocket(); to.users {
			to.ownNamespace(root, flags, dial)
		}
		extendCopy(root, factory, streams)
	}
	speakOfJobctl(root)
	root.Long = "jobctl controls jobd, which runs Kubernetes Jobs on one machine. It is kubectl on jobd's socket; " +
		"with\n--kubeconfig, --context or --server it speaks to that cluster instead."
	completeValues(root, factory)
	if !to.cluster {
		completeHere(root, factory, dial)
	}
	arrange(root, to.cluster)
	return root, nil
}

// kubectlCommand makes kubectl's commands, and returns the streams that they have. Which output the command needs is known once
// there are commands.
func kubectlCommand(
	args []string, flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams,
) (*cobra.Command, genericiooptions.IOStreams) {
	root := cmd.NewKubectlCommand(cmd.KubectlOptions{Arguments: args, ConfigFlags: flags, IOStreams: streams})
	out := newOutput(root, args[min(1, len(args)):], streams.Out)
	if out == nil {
		return root, streams
	}
	streams.Out = out
	root = cmd.NewKubectlCommand(cmd.KubectlOptions{Arguments: args, ConfigFlags: flags, IOStreams: streams})
	before := root.PersistentPreRunE
	root.PersistentPreRunE = func(c *cobra.Command, args []string) error {
		if err := out.choose(c); err != nil {
			return err
		}
		return before(c, args)
	}
	return root, streams
}

// runPlugin runs the plugin that the arguments name, if they name no command, in place of this program. It is what
// cmd.NewDefaultKubectlCommandWithArgs does, which would look for a plugin where it does not know our commands.
func runPlugin(root *cobra.Command, args []string) error {
	least := 1                // the words that the name of the plugin has
	root.InitDefaultHelpCmd() // which cobra adds later again, behind all others
	c, rest, err := root.Find(args)
	for _, sub := range root.Commands() {
		if sub.Name() == "help" {
			root.RemoveCommand(sub)
		}
	}
	switch {
	case err != nil:
		first := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
		if first >= 0 && slices.Contains(completionVerbs, args[first]) { // cobra adds these later
			return nil
		}
	case cmd.IsSubcommandPluginAllowed(c.Name()) && len(rest) > 0 && !strings.HasPrefix(rest[0], "-"):
		least += len(args) - len(rest)
	default:
		return nil
	}
	handler := cmd.NewDefaultPluginHandler(append([]string{"jobctl"}, plugin.ValidPluginFilenamePrefixes...))
	return cmd.HandlePluginCommand(handler, args, least)
}

// leaveUnreadablePreferences switches off kubectl's preferences (~/.kube/kuberc) if they cannot be read. Somebody who became
// another user with su or sudo may still have the home of the first one, whose files are none of theirs; kubectl would
// complain in each command, and without a newline.
func leaveUnreadablePreferences(args []string, errOut io.Writer) {
	given := slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--kuberc") })
	if given || os.Getenv("KUBERC") != "" {
		return
	}
	file, err := os.Open(kuberc.RecommendedKubeRCFile)
	if err == nil {
		_ = file.Close()
		return
	}
	if !errors.Is(err, fs.ErrPermission) {
		return
	}
	if _, err := os.Stat(kuberc.RecommendedKubeRCFile); err == nil {
		fmt.Fprintf(errOut, "Warning: the preferences in %s are not used: permission denied\n", kuberc.RecommendedKubeRCFile)
	}
	_ = os.Setenv("KUBERC", "off") // fails only for a name that is none
}

// speakOfJobctl lets the help texts name the program that is run.
func speakOfJobctl(c *cobra.Command) {
	for _, text := range []*string{&c.Use, &c.Long, &c.Example} {
		*text = strings.ReplaceAll(*text, "kubectl", "jobctl")
	}
	for _, sub := range c.Commands() {
		speakOfJobctl(sub)
	}
}

var errTwoTargets = errors.New("--socket and --kubeconfig, --context or --server were given: it is one or the other")
