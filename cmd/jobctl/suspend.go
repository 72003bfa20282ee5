package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/cmd/internal/submit"
)

// suspended are the kinds that have a field spec.suspend.
var suspended = []string{"jobs", "cronjobs", "jobsets"}

// newSuspendCommand makes the command that holds Jobs and CronJobs.
func newSuspendCommand(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	return suspendCommand(f, streams, true, &cobra.Command{
		Use:   "suspend (jobs/NAME | cronjobs/NAME | jobsets/NAME)... | (-l SELECTOR | --all) [jobs | cronjobs | jobsets]",
		Short: "Hold Jobs, CronJobs and JobSets until they are resumed",
		Long: `Hold Jobs, CronJobs and JobSets until they are resumed: set their spec.suspend. A bare name means a Job.

The pods of a Job that is suspended are ended and do not count as failed; what has succeeded stays. When the Job is resumed it creates pods for the rest, and its activeDeadlineSeconds begins anew. A CronJob that is suspended starts no more Jobs; those that it has started go on. A JobSet suspends its Jobs, and decides about each of them: suspend the whole.

With --all or --selector, Jobs that have finished are left alone.`,
		Example: `  # Hold a Job, and let it go on
  jobctl suspend jobs/train
  jobctl resume jobs/train

  # Hold all Jobs of the namespace that have not finished
  jobctl suspend --all

  # Hold those with a label, and the CronJobs with it
  jobctl suspend jobs,cronjobs -l team=research

  # Let a CronJob start no more Jobs
  jobctl suspend cronjobs/backup`,
	})
}

// newResumeCommand makes the command that lets Jobs and CronJobs go on.
func newResumeCommand(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	return suspendCommand(f, streams, false, &cobra.Command{
		Use:   "resume (jobs/NAME | cronjobs/NAME | jobsets/NAME)... | (-l SELECTOR | --all) [jobs | cronjobs | jobsets]",
		Short: "Let suspended Jobs, CronJobs and JobSets go on",
		Long: `Let suspended Jobs, CronJobs and JobSets go on: unset their spec.suspend. A bare name means a Job.

A Job creates pods for what has not succeeded yet, and its activeDeadlineSeconds begins anew. A CronJob starts a Job at once if it has missed a time while it was suspended and its startingDeadlineSeconds allows it.`,
		Example: `  # Let a Job go on
  jobctl resume jobs/train

  # Let all suspended Jobs of the namespace go on
  jobctl resume --all

  # Let a CronJob start Jobs again
  jobctl resume cronjobs/backup`,
	})
}

func suspendCommand(f cmdutil.Factory, streams genericiooptions.IOStreams, suspend bool, cmd *cobra.Command) *cobra.Command {
	return selecting(f, suspended, cmd, func(ctx context.Context, which selection, args []string) error {
		return setSuspended(ctx, f, streams, which, args, suspend)
	})
}

// setSuspended sets spec.suspend of what was chosen, and prints a line for each object. An object that is refused does
// not keep it from the others.
func setSuspended(ctx context.Context, f cmdutil.Factory, streams genericiooptions.IOStreams, which selection, args []string, suspend bool) error {
	infos, err := which.find(f, args)
	if err != nil {
		return err
	}
	client, err := f.KubernetesClientSet()
	if err != nil {
		return err
	}
	return eachOf(infos, streams.ErrOut, noneFound, func(info *resource.Info) error {
		return suspendOne(ctx, client, streams, info.Object, suspend, which.named())
	})
}

func suspendOne(ctx context.Context, client kubernetes.Interface, streams genericiooptions.IOStreams, obj runtime.Object, suspend, named bool) error {
	patch := fmt.Appendf(nil, `{"spec":{"suspend":%t}}`, suspend)
	options := metav1.PatchOptions{FieldManager: "jobctl-resume"}
	done := "resumed"
	if suspend {
		options.FieldManager, done = "jobctl-suspend", "suspended"
	}
	say := func(name, done string) { fmt.Fprintln(streams.Out, name, done) }
	switch o := obj.(type) {
	case *batchv1.Job:
		name := "job.batch/" + o.Name
		if end := batch.End(&o.Status); end != nil {
			if named {
				return fmt.Errorf("%s has finished (%s)", name, end.Type)
			}
			return nil
		}
		if set, _ := batch.SetOf(o); set != "" {
			if named {
				verb := strings.TrimPrefix(options.FieldManager, "jobctl-")
				return fmt.Errorf("%s belongs to a JobSet, which would undo that: jobctl %s jobsets/%s", name, verb, set)
			}
			return nil
		}
		if ptr.Deref(o.Spec.Suspend, false) == suspend {
			say(name, "is "+map[bool]string{true: "suspended already", false: "not suspended"}[suspend])
			return nil
		}
		if _, err := client.BatchV1().Jobs(o.Namespace).Patch(ctx, o.Name, types.MergePatchType, patch, options); err != nil {
			return err
		}
		say(name, done)
	case *batchv1.CronJob:
		name := "cronjob.batch/" + o.Name
		if ptr.Deref(o.Spec.Suspend, false) == suspend {
			say(name, "is "+map[bool]string{true: "suspended already", false: "not suspended"}[suspend])
			return nil
		}
		if _, err := client.BatchV1().CronJobs(o.Namespace).Patch(ctx, o.Name, types.MergePatchType, patch, options); err != nil {
			return err
		}
		say(name, done)
	case *jobsetv1.JobSet:
		name := "jobset.jobset.x-k8s.io/" + o.Name
		if end := jobset.End(&o.Status); end != nil {
			if named {
				return fmt.Errorf("%s has finished (%s)", name, end.Type)
			}
			return nil
		}
		if jobset.Suspended(o) == suspend {
			say(name, "is "+map[bool]string{true: "suspended already", false: "not suspended"}[suspend])
			return nil
		}
		if err := client.Discovery().RESTClient().Patch(types.MergePatchType).AbsPath(submit.JobSetsPath(o.Namespace), o.Name).
			Param("fieldManager", options.FieldManager).Body(patch).Do(ctx).Error(); err != nil {
			return err
		}
		say(name, done)
	default:
		return fmt.Errorf("%s has no spec.suspend: name Jobs, CronJobs or JobSets", strings.ToLower(obj.GetObjectKind().GroupVersionKind().Kind))
	}
	return nil
}
