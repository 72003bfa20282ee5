package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/jobd/jobd/cmd/internal/submit"
	"github.com/jobd/jobd/internal/handover"
)

// moving is one call of the command move.
type moving struct {
	submitter
	on                    string
	force, cancel, dryRun bool
}

// moveCommand makes the command that moves a Job to another server.
func (s submitter) moveCommand() *cobra.Command {
	m := &moving{submitter: s}
	cmd := &cobra.Command{
		Use:                   "move jobs/NAME --on CONTEXT [--force] [--dry-run] [--cancel]",
		DisableFlagsInUseLine: true,
		Short:                 "Move a Job that waits to another server",
		Long: `Move a Job that waits here to the cluster, or the other jobd, of a context of the kubeconfig: it is made there under its own name, in the same namespace, and then deleted here. Only a Job of which no pod was ever started is moved, so that it runs once.

From the beginning of a move on the Job is held here. Whatever interrupts the command, running it again goes on where it was; --cancel lets the Job go on here, as long as it was not made there.

Before that it is looked whether the Job would run there: that server checks it without storing it; images that are only here, directories of this machine, and claims, accounts, classes, ConfigMaps and Secrets that are not there keep it from being moved, unless --force is given. Annotations of jobd that a cluster ignores are named.

Jobs of CronJobs and JobSets are not moved, and neither is what comes with a Job: ConfigMaps, Secrets and data have to be there.`,
		Example: `  # Nothing is free here until tomorrow
  jobctl move jobs/train --on big
  jobctl --context big follow jobs/train

  # What would keep it from running there
  jobctl move jobs/train --on big --dry-run`,
		ValidArgsFunction: completeFollowed(cmdutil.NewFactory(cmdutil.NewMatchVersionFlags(s.flags))),
		Run: func(cmd *cobra.Command, args []string) {
			cmdutil.CheckErr(m.run(contextOf(cmd), cmd, args))
		},
	}
	cmd.Flags().StringVar(&m.on, "on", "", "The context of the kubeconfig to whose server the Job is moved")
	_ = cmd.RegisterFlagCompletionFunc("on", s.completeOn) // it fails only for a flag that there is not
	cmd.Flags().BoolVar(&m.force, "force", false, "Move it in spite of what is missing there")
	cmd.Flags().BoolVar(&m.dryRun, "dry-run", false, "Only say what would keep it from running there")
	cmd.Flags().BoolVar(&m.cancel, "cancel", false, "End a move that was interrupted: the Job goes on here")
	return cmd
}

func (m *moving) run(ctx context.Context, cmd *cobra.Command, args []string) error {
	name, err := jobName(args)
	switch {
	case err != nil:
		return err
	case m.on == "":
		return fmt.Errorf("--on is missing: the context of the kubeconfig to which job %s is to be moved", name)
	case m.cancel && m.dryRun:
		return errors.New("--cancel and --dry-run were given: it is one or the other")
	}
	here, namespace, err := m.client()
	if err != nil {
		return err
	}
	if ours, err := handover.IsJobd(here.Kubernetes.Discovery()); err != nil {
		return err
	} else if !ours {
		return errors.New("the server is not jobd, from which alone Jobs are moved")
	}
	at, err := m.submitter.on(cmd, m.on)
	if err != nil {
		return err
	}
	there, _, err := at.client()
	if err != nil {
		return err
	}
	mover := &handover.Mover{Here: here.Kubernetes, There: there.Kubernetes, Namespace: namespace, Name: name, To: m.on}
	if m.cancel {
		if err := mover.Cancel(ctx); err != nil {
			return fmt.Errorf("job %s: %w", name, err)
		}
		fmt.Fprintf(m.streams.Out, "job.batch/%s goes on here\n", name)
		return nil
	}
	if err := m.checkMove(ctx, mover, at, there); err != nil {
		return err
	}
	if m.dryRun {
		fmt.Fprintf(m.streams.Out, "job.batch/%s can be moved to %s (dry run)\n", name, m.on)
		return nil
	}
	made, err := mover.Move(ctx)
	if err != nil {
		return fmt.Errorf("job %s: %w", name, err)
	}
	fmt.Fprintf(m.streams.Out, "job.batch/%s moved to %s\n", name, m.on)
	if made.DeletionTimestamp == nil {
		fmt.Fprintf(m.streams.ErrOut, "follow it with: jobctl follow jobs/%s -n %s%s\n", name, namespace, at.words())
	}
	return nil
}

// checkMove looks whether the Job would run there, before anything is changed.
func (m *moving) checkMove(ctx context.Context, mover *handover.Mover, at submitter, there *submit.Client) error {
	here, made, err := mover.Jobs(ctx)
	if err != nil {
		return err
	}
	step, err := handover.Next(here, made, m.on)
	switch {
	case err != nil && step == handover.Done:
		return fmt.Errorf("job %s: %w", mover.Name, err)
	case step != handover.Hold && step != handover.Make:
		return nil // it was made there already
	}
	left, err := mover.Try(ctx, here)
	if err != nil {
		return fmt.Errorf("job %s: %w", mover.Name, err)
	}
	if err := m.check(ctx, handover.OfJob(handover.Copy(here)), at, there, mover.Namespace, m.force); err != nil {
		return err
	}
	var all []handover.Finding
	for _, path := range left {
		all = append(all, handover.Finding{Field: path, Text: m.on + " does not know this field, or has switched it off", Wrong: true})
	}
	return m.judge(all, m.on, m.force)
}
