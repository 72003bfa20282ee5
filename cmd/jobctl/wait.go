package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/cmd/internal/submit"
	"github.com/jobd/jobd/internal/printable"
)

// finished is the value of --for that waits for the end of Jobs, whatever it is.
const finished = "finished"

// extendWait adds --for=finished to kubectl's command. Everything else about the command is kubectl's.
func extendWait(root *cobra.Command, flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) {
	wait, _, err := root.Find([]string{"wait"})
	if err != nil || wait == root {
		return
	}
	f := wait.Flags().Lookup("for")
	f.Usage = strings.Replace(f.Usage, "[create|", "[finished|create|", 1) + " finished, the default, is for Jobs: complete or failed."
	wait.Long += "\n\nWith --for=finished, or without --for, it waits for the end of Jobs (of a CronJob, of its last Job), " +
		"whether they are complete or have failed. The exit code is 0 if all are complete, 1 if one has failed or is gone, and 124 if the time is over." +
		" With --for=condition=Complete it also ends, with 1, when one has failed, and with --for=condition=Failed when one is complete."
	wait.Example += "\n\n  # Wait for the end of a Job, and see by the exit code whether it is complete (0) or has failed (1)\n  " +
		"jobctl wait jobs/pi --timeout=1h"
	kubectls := wait.Run
	wait.Run = func(cmd *cobra.Command, args []string) {
		conditions, err := cmd.Flags().GetStringArray("for")
		if err == nil && len(conditions) == 0 {
			conditions = []string{finished}
		}
		conditions = ofJobs(conditions)
		if len(args) > 0 && isSetKind(args[0]) {
			conditions = ofSets(conditions)
		}
		other := otherEnd(conditions)
		if all, _ := cmd.Flags().GetBool("all"); (other != "" || slices.Contains(conditions, finished)) && len(args) == 1 && !all &&
			!cmd.Flags().Changed("selector") && !strings.ContainsAny(args[0], "/,.") && !isKind(args[0]) {
			args = []string{"jobs/" + args[0]} // as with all commands that are about Jobs
		}
		if err == nil && other != "" {
			go (finishedWait{flags: flags, streams: streams}).giveUp(cmd, args, other)
		}
		if err != nil || !slices.Contains(conditions, finished) {
			if list, ok := cmd.Flags().Lookup("for").Value.(pflag.SliceValue); ok {
				_ = list.Replace(conditions)
			}
			kubectls(cmd, args)
			return
		}
		w := finishedWait{flags: flags, streams: streams}
		code, err := w.run(cmd, args, conditions)
		if err != nil {
			fmt.Fprintf(streams.ErrOut, "error: %s\n", printable.Text(err.Error()))
		}
		os.Exit(code)
	}
}

// ofJobs returns conditions with the word of kubectl before those of a Job, complete is condition=Complete, and for other words that
// people use the one that is meant.
func ofJobs(conditions []string) (out []string) {
	for _, c := range conditions {
		switch strings.ToLower(c) {
		case "complete", "failed", "suspended":
			c = "condition=" + strings.ToUpper(c[:1]) + strings.ToLower(c[1:])
		case "completed", "succeeded", "success":
			c = "condition=Complete"
		case "done", "ended":
			c = finished
		}
		out = append(out, c)
	}
	return out
}

// ofSets returns conditions of Jobs as those of JobSets, of which the good end has another name.
func ofSets(conditions []string) (out []string) {
	for _, c := range conditions {
		if name, is, found := strings.Cut(c, "="); found && strings.EqualFold(name, "condition") {
			if end, value, _ := strings.Cut(is, "="); strings.EqualFold(end, string(batchv1.JobComplete)) {
				c = "condition=" + string(jobsetv1.JobSetCompleted)
				if value != "" {
					c += "=" + value
				}
			}
		}
		out = append(out, c)
	}
	return out
}

// otherEnd returns the end of a Job after which the only condition that is waited for does not come; "" if others may.
func otherEnd(conditions []string) batchv1.JobConditionType {
	if len(conditions) != 1 {
		return ""
	}
	switch strings.TrimSuffix(strings.ToLower(conditions[0]), "=true") {
	case "condition=complete", "condition=completed":
		return batchv1.JobFailed
	case "condition=failed":
		return batchv1.JobComplete
	}
	return ""
}

// isKind reports whether a word is one for Jobs, CronJobs or JobSets, after which a name or a selector follows.
func isKind(word string) bool {
	return slices.Contains([]string{"job", "jobs", "cronjob", "cronjobs", "cj", "jobset", "jobsets"}, word)
}

// finishedWait waits for the end of Jobs.
type finishedWait struct {
	flags   *genericclioptions.ConfigFlags
	streams genericiooptions.IOStreams
}

func (w finishedWait) run(cmd *cobra.Command, args, conditions []string) (int, error) {
	if len(conditions) > 1 {
		return 1, errors.New("--for=finished cannot be combined with another --for")
	}
	timeout, err := cmd.Flags().GetDuration("timeout")
	if err != nil {
		return 1, err
	}
	all, err := w.awaited(cmd, args)
	if err != nil {
		return 1, err
	}
	if timeout < 0 {
		timeout = 7 * 24 * time.Hour // as kubectl has it
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var waiting sync.WaitGroup
	var mu sync.Mutex
	code := 0
	for _, a := range all {
		waiting.Go(func() {
			complete, reason, message, err := a.end(ctx, timeout > 0)
			mu.Lock()
			defer mu.Unlock()
			name := a.name
			switch {
			case errors.Is(err, context.DeadlineExceeded):
				fmt.Fprintf(w.streams.ErrOut, "error: timed out waiting for %s to finish\n", name)
				code = max(code, submit.ExitDeadline)
			case err != nil:
				fmt.Fprintf(w.streams.ErrOut, "error: %s: %s\n", name, printable.Text(err.Error()))
				code = max(code, submit.ExitFailed)
			case complete:
				fmt.Fprintf(w.streams.Out, "%s complete\n", name)
			default:
				fmt.Fprintf(w.streams.Out, "%s failed: %s: %s\n", name, reason, message)
				code = max(code, submit.ExitFailed)
			}
		})
	}
	waiting.Wait()
	return code, nil
}

// giveUp ends the program when one of the Jobs has ended in the other way than kubectl waits for: it would go on waiting until its time is over.
func (w finishedWait) giveUp(cmd *cobra.Command, args []string, other batchv1.JobConditionType) {
	timeout, err := cmd.Flags().GetDuration("timeout")
	if err != nil || timeout == 0 {
		return // kubectl looks once
	}
	all, err := w.awaited(cmd, args)
	if err != nil {
		return // kubectl says what is wrong; what are no Jobs have other conditions
	}
	for _, a := range all {
		go func() {
			complete, reason, message, err := a.end(context.Background(), true)
			if err != nil || complete != (other == batchv1.JobComplete) {
				return
			}
			does := "has failed, and will not be complete"
			if other == batchv1.JobComplete {
				does = "is complete, and will not have failed"
			}
			fmt.Fprintf(w.streams.ErrOut, "error: %s %s: %s: %s\nWithout --for, or with --for=finished, either end is waited for.\n",
				a.name, does, reason, message)
			os.Exit(submit.ExitFailed)
		}()
	}
}

// lastRun returns the last Job of a CronJob.
func (w finishedWait) lastRun(cj *batchv1.CronJob) (*batchv1.Job, error) {
	runs, err := findRuns(w.flags, cj)
	if err != nil {
		return nil, err
	}
	return runs[0], nil
}

// awaited finds the Jobs and JobSets that the command line names, as kubectl does.
func (w finishedWait) awaited(cmd *cobra.Command, args []string) ([]awaited, error) {
	config, err := w.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	client, err := submit.NewClient(config)
	if err != nil {
		return nil, err
	}
	namespace, explicit, err := w.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	set := cmd.Flags()
	files := resource.FilenameOptions{}
	files.Filenames, _ = set.GetStringSlice("filename")
	files.Recursive, _ = set.GetBool("recursive")
	all, _ := set.GetBool("all")
	everywhere, _ := set.GetBool("all-namespaces")
	byLabel, _ := set.GetString("selector")
	byField, _ := set.GetString("field-selector")
	infos, err := withKinds(resource.NewBuilder(w.flags)).
		NamespaceParam(namespace).DefaultNamespace().AllNamespaces(everywhere).FilenameParam(explicit, &files).
		LabelSelectorParam(byLabel).FieldSelectorParam(byField).SelectAllParam(all).
		ResourceTypeOrNameArgs(all, args...).ContinueOnError().Latest().Flatten().Do().Infos()
	if err != nil {
		return nil, err
	}
	var found []awaited
	for _, i := range infos {
		if js, is := i.Object.(*jobsetv1.JobSet); is {
			found = append(found, awaitedSet(client, js))
			continue
		}
		j, ok := i.Object.(*batchv1.Job)
		if cj, is := i.Object.(*batchv1.CronJob); is {
			if j, err = w.lastRun(cj); err != nil {
				return nil, err
			}
		} else if !ok {
			return nil, fmt.Errorf("--for=finished is for Jobs and JobSets, and %s is not one", i.ObjectName())
		}
		found = append(found, awaitedJob(client, j))
	}
	if len(found) == 0 {
		return nil, errors.New("no matching resources found")
	}
	return found, nil
}
