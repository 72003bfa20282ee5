package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/indexes"
	"github.com/jobd/jobd/api/retry"
	"github.com/jobd/jobd/cmd/internal/submit"
)

// retrying is one call of the command retry.
type retrying struct {
	genericiooptions.IOStreams
	which  selection
	change retry.Container
	ask    retry.Request
	params []string
	// words are what a command that is advised needs to reach the same server.
	words func() string
}

// newRetryCommand makes the command that runs again what failed of a Job.
func newRetryCommand(f cmdutil.Factory, streams genericiooptions.IOStreams, words func() string) *cobra.Command {
	r := retrying{IOStreams: streams, words: words}
	cmd := &cobra.Command{
		Use:                   "retry (jobs/NAME... | -l SELECTOR | --all) [--memory 2x] [--cpu 2x] [--image IMAGE] [-c CONTAINER] [--deadline 2x] [--pod-deadline 2x] [--param NAME=VALUE] [--index LIST]",
		DisableFlagsInUseLine: true,
		Short:                 "Rerun what failed of a Job",
		Long: `Rerun what failed of a failed Job: all indexes that have not succeeded if it is Indexed, otherwise the completions that are missing. What has succeeded stays, with its pods and logs. With --all or --selector, only Jobs that have failed are retried.

The Job begins another attempt: failures are counted anew for backoffLimit, backoffLimitPerIndex and maxFailedIndexes, back-offs begin with the first, and activeDeadlineSeconds and ttlSecondsAfterFinished begin anew too. The attempts before are kept in the annotation ` + batch.AttemptsAnnotation + ` (the last 20), and "jobctl why" shows them.

--memory and --cpu change what the container of the next attempt has: a factor such as 2x multiplies limit and request, a quantity such as 4Gi is the new limit, with the request in proportion. With several containers in the pod, --container names the one.

--deadline changes how long the Job may run (spec.activeDeadlineSeconds), and --pod-deadline how long each of its pods may (that of the template): a factor of what it is, or a duration such as 90m.

--index runs only these indexes again, and --param only those with this value of a Job that "jobctl submit --param" or --each has made: several flags about one variable are alternatives, and all variables must fit. Both need backoffLimitPerIndex, as such Jobs have it. The other indexes that have not succeeded stay failed; another retry runs them.

A JobSet is not retried, nor is a Job of one: it begins its Jobs anew by itself, and once it has finished that is final.

This works with jobd only: on a cluster, a failed Job stays failed.`,
		Example: `  # Rerun what failed
  jobctl retry jobs/train

  # The same with twice the memory
  jobctl retry jobs/train --memory 2x

  # With twice the time for each pod
  jobctl retry jobs/train --pod-deadline 2x

  # With another image for one of several containers, and follow it
  jobctl retry jobs/train -c main --image train:1.1 && jobctl follow jobs/train

  # Only the indexes with this value
  jobctl retry jobs/sweep --param lr=0.1

  # All Jobs of the namespace that have failed
  jobctl retry --all`,
		ValidArgsFunction: completion.SpecifiedResourceTypeAndNameCompletionFunc(f, []string{"jobs"}),
		Run: func(cmd *cobra.Command, args []string) {
			cmdutil.CheckErr(r.run(contextOf(cmd), f, args))
		},
	}
	r.which.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&r.change.Memory, "memory", "", "How much memory the container has: a quantity (4Gi) or a factor (2x)")
	flags.StringVar(&r.change.CPU, "cpu", "", "How many CPUs the container has: a quantity (500m) or a factor (2x)")
	flags.StringVar(&r.change.Image, "image", "", "The image of the container")
	flags.StringVar(&r.ask.Deadline, "deadline", "", "How long the Job may run: a duration (90m) or a factor (2x)")
	flags.StringVar(&r.ask.PodDeadline, "pod-deadline", "", "How long each pod may run: a duration (90m) or a factor (2x)")
	flags.StringVar(&r.ask.Indexes, "index", "", "Only these indexes, such as 3 or 0,4-7")
	flags.StringArrayVar(&r.params, "param", nil, "Only the indexes with this value of a variable, NAME=VALUE")
	flags.StringVarP(&r.change.Name, "container", "c", "", "The container that --memory, --cpu and --image are about; not needed if there is one")
	return cmd
}

func (r *retrying) run(ctx context.Context, f cmdutil.Factory, args []string) error {
	ask := r.ask
	if r.change != (retry.Container{Name: r.change.Name}) {
		ask.Containers = []retry.Container{r.change}
	} else if r.change.Name != "" {
		return errors.New("--container needs --memory, --cpu or --image")
	}
	if len(r.params) > 0 && ask.Indexes != "" {
		return errors.New("--index and --param were given: it is one or the other")
	}
	if len(args) > 0 && isSetKind(args[0]) {
		return errors.New("a JobSet is not retried: " + batch.SetIsFinal)
	}
	infos, err := r.which.find(f, args)
	if err != nil {
		return err
	}
	client, err := clientOfJobd(f, "in a cluster a Job that has failed stays so: create another one, with \"jobctl create job NEW --from\" if it is a CronJob's")
	if err != nil {
		return err
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	infos = slices.DeleteFunc(infos, func(info *resource.Info) bool {
		j, ok := info.Object.(*batchv1.Job)
		if !ok || r.which.named() {
			return false
		}
		end := batch.End(&j.Status)
		set, _ := batch.SetOf(j)
		return end == nil || end.Type != batchv1.JobFailed || set != ""
	})
	return eachOf(infos, r.ErrOut, "No Jobs found that have failed", func(info *resource.Info) error {
		j, ok := info.Object.(*batchv1.Job)
		if !ok {
			return fmt.Errorf("%s is not a Job", info.ObjectName())
		}
		body := body
		if len(r.params) > 0 {
			ask := ask
			if ask.Indexes, err = withValues(j, submit.IndexValues(ctx, client, j), r.params); err != nil {
				return err
			}
			if body, err = json.Marshal(ask); err != nil {
				return err
			}
		}
		next := &batchv1.Job{}
		if err := client.BatchV1().RESTClient().Post().Namespace(j.Namespace).Resource("jobs").Name(j.Name).SubResource("retry").
			SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Into(next); err != nil {
			return err
		}
		r.tell(next)
		return nil
	})
}

// withValues lists the indexes of a Job that have not succeeded and have given values, NAME=VALUE each.
func withValues(j *batchv1.Job, values *batch.IndexValues, given []string) (string, error) {
	if values == nil {
		return "", fmt.Errorf("job %s has no values of its indexes that could be read (%s, %s): name the indexes by --index",
			j.Name, batch.IndexEnvAnnotation, batch.ArrayAnnotation)
	}
	wanted := map[string][]string{}
	for _, g := range given {
		name, value, ok := strings.Cut(g, "=")
		if !ok {
			return "", fmt.Errorf("--param: %q is not of the form NAME=VALUE", g)
		}
		if names := values.Names(); !slices.Contains(names, name) {
			return "", fmt.Errorf("--param: job %s has no variable %q, only %s", j.Name, name, strings.Join(names, ", "))
		}
		wanted[name] = append(wanted[name], value)
	}
	n := ptr.Deref(j.Spec.Completions, 0)
	done, _ := indexes.Parse(j.Status.CompletedIndexes, n)
	var fit []string
	some := false
	for index := range int32(min(int64(n), values.Until())) {
		fitting := 0
		for _, v := range values.Of(int(index)) {
			if slices.Contains(wanted[v.Name], v.Value) {
				fitting++
			}
		}
		if fitting < len(wanted) {
			continue
		}
		if some = true; !indexes.Has(done, index) {
			fit = append(fit, strconv.Itoa(int(index)))
		}
	}
	switch {
	case len(fit) > 0:
		return strings.Join(fit, ","), nil
	case some:
		return "", fmt.Errorf("job %s: all indexes with %s have succeeded", j.Name, strings.Join(given, ", "))
	}
	return "", fmt.Errorf("job %s: no index has %s", j.Name, strings.Join(given, ", "))
}

// tell prints what was begun, and what the new attempt has that the one before had not.
func (r *retrying) tell(j *batchv1.Job) {
	fmt.Fprintf(r.Out, "job.batch/%s retried: attempt %d\n", j.Name, batch.AttemptOf(j.Annotations))
	if all := batch.Attempts(j.Annotations); len(all) > 0 {
		for _, change := range all[len(all)-1].Changes {
			fmt.Fprintf(r.Out, "  %s\n", change)
		}
	}
	if ptr.Deref(j.Spec.Suspend, false) {
		fmt.Fprintf(r.ErrOut, "job.batch/%s is suspended: jobctl%s resume jobs/%[1]s\n", j.Name, r.words())
	}
}
