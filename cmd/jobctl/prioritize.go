package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/cmd/internal/about"
)

// newPrioritizeCommand makes the command that puts Jobs first in the queue.
func newPrioritizeCommand(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	var undo bool
	cmd := &cobra.Command{
		Use:                   "prioritize jobs/NAME... [--undo]",
		DisableFlagsInUseLine: true,
		Short:                 "Put a waiting Job first in the queue",
		Long: `Put the pods of a Job ahead of others that wait for room with the same priority (PriorityClass). Pods of a higher priority stay ahead of them, no running pod is ended for them, and a pod further back may still start first if it fits and they do not.

It sets the annotation ` + batch.PrioritizedAnnotation + ` of the Job to the current time, so it takes the right to update the Job, and lasts as long as the Job. Of several such Jobs the last one comes first. With "jobctl get jobs -o wide" the column QUEUE shows the places.`,
		Example: `  # Start this Job as soon as there is room for it
  jobctl prioritize jobs/report

  # Put it back where it was
  jobctl prioritize jobs/report --undo

  # Who waits, and at which place
  jobctl get jobs -o wide`,
		ValidArgsFunction: completion.SpecifiedResourceTypeAndNameCompletionFunc(f, []string{"jobs"}),
		Run: func(cmd *cobra.Command, args []string) {
			cmdutil.CheckErr(prioritize(contextOf(cmd), f, streams, args, undo))
		},
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "Put them back where they were")
	return cmd
}

func prioritize(ctx context.Context, f cmdutil.Factory, streams genericiooptions.IOStreams, args []string, undo bool) error {
	objects, err := about.Named(f, []string{"jobs"}, args)
	if err != nil {
		return err
	}
	client, err := clientOfJobd(f, "the scheduler of a cluster ignores this annotation: use a PriorityClass there")
	if err != nil {
		return err
	}
	done := "prioritized"
	if undo {
		done = "put back"
	}
	for _, o := range objects {
		j, err := client.BatchV1().Jobs(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if end := batch.End(&j.Status); end != nil && !undo {
			help := ""
			if set, _ := batch.SetOf(j); end.Type == batchv1.JobFailed && set == "" {
				help = ": jobctl retry jobs/" + o.Name + " runs again what failed"
			}
			return fmt.Errorf("job %s has finished (%s), so nothing of it waits%s", o.Name, end.Type, help)
		}
		if err := setTime(ctx, client, j, batch.PrioritizedAnnotation, !undo, "jobctl-prioritize"); err != nil {
			return err
		}
		fmt.Fprintf(streams.Out, "job.batch/%s %s\n", o.Name, done)
	}
	return nil
}
