package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/cmd/internal/submit"
)

// newPauseCommand makes the command that freezes Jobs.
func newPauseCommand(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	return pauseCommand(f, streams, true, &cobra.Command{
		Use:   "pause (jobs/NAME | jobsets/NAME)... | (-l SELECTOR | --all) [jobs | jobsets]",
		Short: "Freeze running Jobs and JobSets until they are continued",
		Long: `Freeze running Jobs until they are continued: their containers stop where they are, without being ended or told. They keep their memory, and what CPU they request is free for others. No pods are started, probes are not asked, and the time does not count against activeDeadlineSeconds.

It sets the annotation ` + batch.PausedAnnotation + ` of the Job to the current time, so it takes the right to update the Job. A Job that is paused can be suspended and deleted: its containers go on then, to end. They stay frozen when jobd is restarted.

A Job that has not begun does not begin before it is continued, whether it waits for its time (` + batch.StartAtAnnotation + `) or its window, for other Jobs (` + batch.AfterAnnotation + `), for a place in its concurrency group or for room.

A JobSet pauses its Jobs, those that it has and those that it creates meanwhile, and decides about each of them: pause the whole.

With --all or --selector, both kinds are meant unless one is named. Jobs that have finished, are about to end or were suspended by somebody are left alone.`,
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
		Use:   "continue (jobs/NAME | jobsets/NAME)... | (-l SELECTOR | --all) [jobs | jobsets]",
		Short: "Let paused Jobs and JobSets go on",
		Long: `Let Jobs go on that were paused. Their containers go on at once, where they were stopped, even if others use the CPU that they request: no other pod starts before there is room for all again. Pods that are paused for others of a higher priority (` + core.PreemptByAnnotation + `) go on by themselves, as soon as their CPU is free, and not before.

It removes the annotation ` + batch.PausedAnnotation + ` of the Job, so it takes the right to update the Job.`,
		Example: `  # Let a Job go on
  jobctl continue jobs/train

  # Let a JobSet go on
  jobctl continue jobsets/train

  # Let all paused Jobs and JobSets of the namespace go on
  jobctl continue --all`,
	})
}

func pauseCommand(f cmdutil.Factory, streams genericiooptions.IOStreams, pause bool, cmd *cobra.Command) *cobra.Command {
	return selecting(f, []string{"jobs", "jobsets"}, cmd, func(ctx context.Context, which selection, args []string) error {
		return setPaused(ctx, f, streams, which, args, pause)
	})
}

// setPaused pauses or continues what was chosen, and prints a line for each Job. One that is refused does not keep it from the others.
func setPaused(ctx context.Context, f cmdutil.Factory, streams genericiooptions.IOStreams, which selection, args []string, pause bool) error {
	if len(args) == 0 && !which.named() {
		args = []string{"jobs,jobsets"}
	}
	infos, err := which.find(f, args)
	if err != nil {
		return err
	}
	client, err := clientOfJobd(f, "a cluster cannot freeze Jobs: \"jobctl suspend\" ends their pods instead")
	if err != nil {
		return err
	}
	return eachOf(infos, streams.ErrOut, noneFound, func(info *resource.Info) error {
		switch o := info.Object.(type) {
		case *batchv1.Job:
			return pauseOne(ctx, client, streams, o, pause, which.named())
		case *jobsetv1.JobSet:
			return pauseSet(ctx, client, streams, o, pause, which.named())
		}
		return fmt.Errorf("%s cannot be paused: name Jobs or JobSets", info.ObjectName())
	})
}

// unpausable returns why a Job can be neither paused nor continued; nil if it can. One that waits for others to end, or for its time, is
// suspended, but can be paused: it then does not begin when these have, or that has come.
func unpausable(j *batchv1.Job, pause bool) error {
	name := "job.batch/" + j.Name
	end, ending := batch.End(&j.Status), batch.Ending(&j.Status)
	set, _ := batch.SetOf(j)
	switch {
	case end != nil:
		return fmt.Errorf("%s has finished (%s)", name, end.Type)
	case set != "":
		verb := map[bool]string{true: "pause", false: "continue"}[pause]
		return fmt.Errorf("%s belongs to a JobSet, which would undo that: jobctl %s jobsets/%s", name, verb, set)
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
	manager, done := paused(pause)
	if err := setTime(ctx, client, j, batch.PausedAnnotation, pause, manager); err != nil {
		return err
	}
	fmt.Fprintln(streams.Out, name, done)
	return nil
}

// paused returns who pauses or continues, among those who write objects, and the word for what has been done.
func paused(pause bool) (manager, done string) {
	if pause {
		return "jobctl-pause", "paused"
	}
	return "jobctl-continue", "continued"
}

// pauseSet pauses or continues a JobSet, which does so with its Jobs.
func pauseSet(ctx context.Context, client kubernetes.Interface, streams genericiooptions.IOStreams, js *jobsetv1.JobSet, pause, named bool) error {
	name := "jobset.jobset.x-k8s.io/" + js.Name
	if err := unpausableSet(js, pause); err != nil {
		if named {
			return err
		}
		return nil
	}
	if _, is := jobset.Paused(js); is == pause {
		fmt.Fprintln(streams.Out, name, map[bool]string{true: "is paused already", false: "is not paused"}[pause])
		return nil
	}
	patch, err := timePatch(batch.PausedAnnotation, pause)
	if err != nil {
		return err
	}
	manager, done := paused(pause)
	if err := client.Discovery().RESTClient().Patch(types.MergePatchType).AbsPath(submit.JobSetsPath(js.Namespace), js.Name).
		Param("fieldManager", manager).Body(patch).Do(ctx).Error(); err != nil {
		return err
	}
	fmt.Fprintln(streams.Out, name, done)
	return nil
}

// unpausableSet returns why a JobSet can be neither paused nor continued; nil if it can.
func unpausableSet(js *jobsetv1.JobSet, pause bool) error {
	name := "jobset.jobset.x-k8s.io/" + js.Name
	switch end := jobset.End(&js.Status); {
	case end != nil:
		return fmt.Errorf("%s has finished (%s)", name, end.Type)
	case pause && js.DeletionTimestamp != nil:
		return fmt.Errorf("%s is being deleted", name)
	case pause && jobset.Suspended(js):
		return fmt.Errorf("%s is suspended (spec.suspend), so it has no pods that could be frozen", name)
	}
	return nil
}
