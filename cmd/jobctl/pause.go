package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
)

// newPauseCommand makes the command that freezes Jobs.
func newPauseCommand(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	return pauseCommand(f, streams, true, &cobra.Command{
		Use:   "pause jobs/NAME... | (-l SELECTOR | --all)",
		Short: "Freeze running Jobs until they are continued",
		Long: `Freeze running Jobs until they are continued: their containers stop where they are, without being ended or told. They keep their memory, and what CPU they request is free for others. No pods are started, probes are not asked, and the time does not count against activeDeadlineSeconds.

It sets the annotation ` + batch.PausedAnnotation + ` of the Job to the current time, so it takes the right to update the Job. A Job that is paused can be suspended and deleted: its containers go on then, to end. They stay frozen when jobd is restarted.

A Job that has not begun does not begin before it is continued, whether it waits for its time (` + batch.StartAtAnnotation + `) or its window, for other Jobs (` + batch.AfterAnnotation + `), for a place in its concurrency group or for room.

With --all or --selector, Jobs that have finished, are about to end or were suspended by somebody are left alone.`,
		Example: `  # Freeze a Job, and let it go on
  jobctl pause jobs/train
  jobctl continue jobs/train

  # Have the machine for yourself
  jobctl pause --all --all-namespaces`,
	})
}

// newContinueCommand makes the command that lets Jobs go on that were paused.
func newContinueCommand(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	return pauseCommand(f, streams, false, &cobra.Command{
		Use:   "continue jobs/NAME... | (-l SELECTOR | --all)",
		Short: "Let paused Jobs go on",
		Long: `Let Jobs go on that were paused. Their containers go on at once, where they were stopped, even if others use the CPU that they request: no other pod starts before there is room for all again. Pods that are paused for others of a higher priority (` + core.PreemptByAnnotation + `) go on by themselves, as soon as their CPU is free, and not before.

It removes the annotation ` + batch.PausedAnnotation + ` of the Job, so it takes the right to update the Job.`,
		Example: `  # Let a Job go on
  jobctl continue jobs/train

  # Let all paused Jobs of the namespace go on
  jobctl continue --all`,
	})
}

func pauseCommand(f cmdutil.Factory, streams genericiooptions.IOStreams, pause bool, cmd *cobra.Command) *cobra.Command {
	return selecting(f, []string{"jobs"}, cmd, func(ctx context.Context, which selection, args []string) error {
		return setPaused(ctx, f, streams, which, args, pause)
	})
}

// setPaused pauses or continues what was chosen, and prints a line for each Job. One that is refused does not keep it from the others.
func setPaused(ctx context.Context, f cmdutil.Factory, streams genericiooptions.IOStreams, which selection, args []string, pause bool) error {
	infos, err := which.find(f, args)
	if err != nil {
		return err
	}
	client, err := clientOfJobd(f, "a cluster cannot freeze Jobs: \"jobctl suspend\" ends their pods instead")
	if err != nil {
		return err
	}
	return eachOf(infos, streams.ErrOut, noneFound, func(info *resource.Info) error {
		j, ok := info.Object.(*batchv1.Job)
		if !ok {
			return fmt.Errorf("%s cannot be paused: name Jobs", info.ObjectName())
		}
		return pauseOne(ctx, client, streams, j, pause, which.named())
	})
}

// unpausable returns why a Job can be neither paused nor continued; nil if it can. One that waits for others to end, or for its time, is
// suspended, but can be paused: it then does not begin when these have, or that has come.
func unpausable(j *batchv1.Job, pause bool) error {
	name := "job.batch/" + j.Name
	end, ending := batch.End(&j.Status), batch.Ending(&j.Status)
	switch {
	case end != nil:
		return fmt.Errorf("%s has finished (%s)", name, end.Type)
	case pause && ending != nil:
		return fmt.Errorf("%s is about to end (%s: %s), and waits for its last pods", name, ending.Type, ending.Reason)
	case pause && j.DeletionTimestamp != nil:
		return fmt.Errorf("%s is being deleted", name)
	case pause && ptr.Deref(j.Spec.Suspend, false) && !batch.Awaits(j):
		return fmt.Errorf("%s is suspended (spec.suspend), so it has no pods that could be frozen", name)
	}
	return nil
}

func pauseOne(ctx context.Context, client kubernetes.Interface, streams genericiooptions.IOStreams, j *batchv1.Job, pause, named bool) error {
	name := "job.batch/" + j.Name
	if err := unpausable(j, pause); err != nil {
		if named {
			return err
		}
		return nil
	}
	if !pause && !batch.Paused(j.Annotations) && batch.PausedByWindow(j) {
		_, opens := batch.WindowClosed(&j.Status)
		fmt.Fprintf(streams.Out, "%s is paused until its window opens at %s; jobctl annotate --overwrite jobs/%s %s=00:00-24:00 opens it now\n",
			name, opens.Format(time.RFC3339), j.Name, core.WindowAnnotation)
		return nil
	}
	switch {
	case !pause && !batch.Paused(j.Annotations) && batch.PausedBy(&j.Status) != "":
		fmt.Fprintln(streams.Out, name, "is not paused by anybody: its pods go on when their CPU is free")
		return nil
	case batch.Paused(j.Annotations) == pause:
		fmt.Fprintln(streams.Out, name, map[bool]string{true: "is paused already", false: "is not paused"}[pause])
		return nil
	}
	manager, done := "jobctl-continue", "continued"
	if pause {
		manager, done = "jobctl-pause", "paused"
	}
	if err := setTime(ctx, client, j, batch.PausedAnnotation, pause, manager); err != nil {
		return err
	}
	fmt.Fprintln(streams.Out, name, done)
	return nil
}
