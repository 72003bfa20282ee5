package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"

	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/cmd/internal/about"
)

// explained are the kinds that can be explained.
var explained = []string{"jobs", "pods", "cronjobs", "jobsets"}

// newWhyCommand makes the command that says why a Job, a pod, a CronJob or a JobSet is in the state that it is in.
// reach lets the commands in the answer reach the same server.
func newWhyCommand(f cmdutil.Factory, streams genericiooptions.IOStreams, reach func(help string) string) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:                   "why (jobs/NAME | pods/NAME | cronjobs/NAME | jobsets/NAME) [-o json|yaml]",
		DisableFlagsInUseLine: true,
		Short:                 "Say why a Job, pod, CronJob or JobSet waits, or has failed",
		Long: `Say why a Job, pod, CronJob or JobSet is waiting or has failed: the chain of causes, what it is waiting for and until when, the last lines printed by the container that decided it, and commands that help. A bare name means a Job.

The answer comes from the state that the daemon itself decides by. A cluster (--context, --kubeconfig) has no such request: there the answer is pieced together from objects and events, says less, and tells you so.`,
		Example: `  # Why has this Job failed?
  jobctl why jobs/pi

  # What is this pod waiting for?
  jobctl why pods/pi-x7bqz

  # Why has this CronJob not started anything?
  jobctl why cronjobs/backup

  # Which group of this JobSet waits for which, which Job made it fail?
  jobctl why jobsets/train

  # For programs
  jobctl why jobs/pi -o json`,
		ValidArgsFunction: completion.SpecifiedResourceTypeAndNameCompletionFunc(f, explained),
		Run: func(cmd *cobra.Command, args []string) {
			cmdutil.CheckErr(printWhy(contextOf(cmd), f, streams, args, output, reach))
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "Output format. One of: (json, yaml)")
	return cmd
}

func printWhy(ctx context.Context, f cmdutil.Factory, streams genericiooptions.IOStreams, args []string, output string, reach func(help string) string) error {
	if output != "" && output != "json" && output != "yaml" {
		return fmt.Errorf("unknown output format %q: one of json, yaml", output)
	}
	objects, err := about.Named(f, explained, args)
	if err != nil {
		return err
	}
	client, err := f.KubernetesClientSet()
	if err != nil {
		return err
	}
	for i, object := range objects {
		said, err := explain(ctx, client, object)
		if err != nil {
			return err
		}
		switch output {
		case "json":
			err = writeJSON(streams.Out, said)
		case "yaml":
			if i > 0 {
				fmt.Fprintln(streams.Out, "---")
			}
			err = writeYAML(streams.Out, said)
		default:
			reaching(said.Causes, reach)
			err = why.Print(streams.Out, said)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reaching lets the commands that help reach the server that was asked.
func reaching(causes []why.Cause, reach func(help string) string) {
	for i := range causes {
		for k, help := range causes[i].Help {
			causes[i].Help[k] = reach(help)
		}
		reaching(causes[i].Causes, reach)
	}
}

// whatHistoryHas says how a Job has ended that is gone.
func whatHistoryHas(j *history.Job) string {
	words := fmt.Sprintf("The history has one of this name, which ended at %s: %s", j.Ended.UTC().Format(time.RFC3339), j.Result)
	if j.Reason != "" {
		words += " (" + j.Reason + ")"
	}
	for i, c := range j.ExitCodes {
		if words += ", "; i == 0 {
			words += "exit codes of its pods: "
		}
		words += fmt.Sprintf("%d (%dx)", c.Code, c.Count)
	}
	name := j.Name
	if j.Namespace != metav1.NamespaceDefault {
		name += " -n " + j.Namespace
	}
	return words + fmt.Sprintf(". All that is left of it: jobctl report jobs/%s >job.html", name)
}

// explain asks the server why an object is in its state. If the server has no answer to that, it is put together from
// what its API shows.
func explain(ctx context.Context, client kubernetes.Interface, o about.Object) (*why.Explanation, error) {
	of, err := readExplained(ctx, client, o)
	if apierrors.IsNotFound(err) && o.Resource == "jobs" {
		if said, unknown := about.Why(ctx, client, o); unknown == nil {
			return said, nil // a success is expected of its name
		}
	}
	if err != nil {
		return nil, err
	}
	said, err := about.Why(ctx, client, o)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) {
		return explainFromAPI(ctx, client, of)
	}
	return said, err
}
