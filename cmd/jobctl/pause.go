package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"
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

With --all or --selector, Jobs that have finished are left alone.`,
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
	var which selection
	cmd.DisableFlagsInUseLine = true
	cmd.ValidArgsFunction = completion.SpecifiedResourceTypeAndNameCompletionFunc(f, []string{"jobs"})
	cmd.Run = func(cmd *cobra.Command, args []string) {
		cmdutil.CheckErr(setPaused(contextOf(cmd), f, streams, which, args, pause))
	}
	which.addFlags(cmd)
	return cmd
}

// setPaused pauses or continues what was chosen, and prints a line for each Job. One that is refused does not keep it from the others.
func setPaused(ctx context.Context, f cmdutil.Factory, streams genericiooptions.IOStreams, which selection, args []string, pause bool) error {
	infos, err := which.find(f, args)
	if err != nil {
		return err
	}
	client, err := f.KubernetesClientSet()
	if err != nil {
		return err
	}
	if ours, err := isJobd(client.Discovery()); err != nil {
		return err
	} else if !ours {
		return errors.New("the server is not jobd, and a cluster cannot freeze Jobs: \"jobctl suspend\" ends their pods instead")
	}
	if len(infos) == 0 {
		fmt.Fprintln(streams.ErrOut, "No resources found")
	}
	named := which.labels == "" && !which.all
	var failed []error
	for _, info := range infos {
		j, ok := info.Object.(*batchv1.Job)
		if !ok {
			failed = append(failed, fmt.Errorf("%s cannot be paused: name Jobs", info.ObjectName()))
			continue
		}
		failed = append(failed, pauseOne(ctx, client, streams, j, pause, named))
	}
	return errors.Join(failed...)
}

func pauseOne(ctx context.Context, client kubernetes.Interface, streams genericiooptions.IOStreams, j *batchv1.Job, pause, named bool) error {
	name := "job.batch/" + j.Name
	switch end := batch.End(&j.Status); {
	case end != nil && named:
		return fmt.Errorf("%s has finished (%s)", name, end.Type)
	case end != nil:
		return nil
	case pause && ptr.Deref(j.Spec.Suspend, false) && named:
		return fmt.Errorf("%s is suspended (spec.suspend), so it has no pods that could be frozen", name)
	case pause && ptr.Deref(j.Spec.Suspend, false):
		return nil
	case !pause && !batch.Paused(j.Annotations) && batch.PausedBy(&j.Status) != "":
		fmt.Fprintln(streams.Out, name, "is not paused by anybody: its pods go on when their CPU is free")
		return nil
	case batch.Paused(j.Annotations) == pause:
		fmt.Fprintln(streams.Out, name, map[bool]string{true: "is paused already", false: "is not paused"}[pause])
		return nil
	}
	var value *string
	options := metav1.PatchOptions{FieldManager: "jobctl-continue"}
	done := "continued"
	if pause {
		now := time.Now().UTC().Format(time.RFC3339Nano)
		value, options.FieldManager, done = &now, "jobctl-pause", "paused"
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]*string{batch.PausedAnnotation: value}}})
	if err != nil {
		return err
	}
	if _, err := client.BatchV1().Jobs(j.Namespace).Patch(ctx, j.Name, types.MergePatchType, patch, options); err != nil {
		return err
	}
	fmt.Fprintln(streams.Out, name, done)
	return nil
}
