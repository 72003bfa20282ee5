package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/cmd/internal/interactive"
	"github.com/jobd/jobd/cmd/internal/overssh"
	"github.com/jobd/jobd/cmd/internal/submit"
	"github.com/jobd/jobd/internal/printable"
)

// exitCodes is the part of the help that says what the exit code means.
const exitCodes = `The exit code says how the Job has ended:

  0        it is complete
  0-255    it has failed: the exit code of the container that failed, in the first pod that counted as a failure
  1        it has failed, and no container says with which code
  124      its deadline has passed (activeDeadlineSeconds)
  125      it could not be run, or not followed to its end: it was refused, its image cannot be had, it was
           deleted; or its logs could not be written to the standard output
  130, 143 the command was interrupted by Ctrl-C, or by SIGTERM (128 and the number of the signal)`

// submitter makes the commands that create and follow Jobs.
type submitter struct {
	flags   *genericclioptions.ConfigFlags
	to      *target
	streams genericiooptions.IOStreams
	refused *refusedRequest
}

func (s submitter) submitCommand() *cobra.Command {
	o := submit.Options{}
	cmd := &cobra.Command{
		Use:                   "submit (-f FILE | (--image IMAGE | --host) -- COMMAND ARG... | (--image IMAGE | --host) SCRIPT [ARG...])",
		DisableFlagsInUseLine: true,
		Short:                 "Run a Job to its end: create it, show its logs, exit with its exit code",
		Long: `Run a Job to its end: create it, show its logs and progress, and exit with its exit code.

The Job comes from a file, with the ConfigMaps, Secrets and other objects that it needs, or from flags. Objects beside the Job are applied; the Job itself is created. A JobSet in place of the Job is followed through all its attempts. The logs go to the standard output as "jobctl logs -f" shows them, progress and messages to the standard error.

A script is run in the image by its first line (#!). Its lines with #SBATCH or #PBS say what it needs, as for Slurm and PBS; flags overrule them. What cannot be followed is refused with the number of the line: "jobctl explain slurm" lists all options.

` + exitCodes,
		Example: `  # Run the Job of a file, and use its result in a script
  jobctl submit -f job.yaml && echo done

  # Run a command in an image; its output and exit code are those of the container
  jobctl submit --image busybox:1.36 -- sh -c 'echo hello; exit 3'

  # Ten pods with an index each, four at a time, with a directory of this machine
  jobctl submit --image busybox:1.36 --completions 10 --parallelism 4 --indexed --volume .:/data -- sh -c 'echo $JOB_COMPLETION_INDEX >>/data/out'

  # A command of this machine, as you, in this directory, with 4 CPUs and a limit of memory
  jobctl submit --host --cpu 4 --memory 16Gi -- ./train.py --epochs 10

  # An image with your files: as you, in this directory
  jobctl submit --as-me --here --image python:3.13 -- python3 train.py

  # A script for sbatch or qsub; its output goes to files in this directory
  jobctl submit --image python:3.13 --volume $PWD:$PWD --workdir $PWD train.sh

  # An index for each combination of values, and what each has left in /dev/termination-log
  jobctl submit --image trainer:2 --name sweep --param lr=0.1,0.01 --param bs=32,64 -- ./train --lr '$(lr)' --batch-size '$(bs)'
  jobctl results jobs/sweep

  # A shell with a GPU as soon as it is its turn; leave it with Ctrl-P Ctrl-Q and join it again with jobctl attach
  jobctl submit -it --image pytorch:2.8 --gpus 1 -- bash

  # Print the manifest instead of running it
  jobctl submit --image busybox:1.36 --dry-run=client -o yaml -- date

  # The same in the cluster that the kubeconfig calls big
  jobctl submit --on big -f job.yaml

  # Start when the Job prep has completed, and check has ended in whatever way
  jobctl submit --after prep,check:any --name train --image busybox:1.36 -- date

  # Start tonight; --at +2h and --at 2026-12-01T08:00 are other ways to say it
  jobctl submit --at 22:00 -f job.yaml --detach

  # Tell me on my desktop when it has ended
  jobctl submit -f job.yaml --notify

  # Come back to it later
  jobctl submit -f job.yaml --detach
  jobctl follow jobs/pi

  # The last Job of a CronJob
  jobctl follow cronjobs/backup`,
		Run: func(cmd *cobra.Command, args []string) {
			os.Exit(s.submit(cmd, &o, args))
		},
	}
	submit.Habits(cmd)
	o.AddSubmitFlags(cmd.Flags())
	o.AddScriptFlags(cmd.Flags())
	o.AddFollowFlags(cmd.Flags(), submit.OnStartErrorWait)
	o.AddInterruptFlag(cmd.Flags())
	o.AddReportFlags(cmd.Flags())
	o.AddNotifyFlag(cmd.Flags())
	o.AddInteractiveFlags(cmd.Flags(), interactive.DetachKeys)
	cmd.Flags().BoolVarP(&o.Detach, "detach", "d", false, "Create the Job, print its name, and do not follow it")
	cmd.Flags().BoolVar(&o.Replace, "replace", false, "Delete a Job of the same name first, with its pods and logs, and wait until it is gone")
	cmd.Flags().StringArrayVar(&o.After, "after", nil, "Start only after another Job of the namespace has completed: NAME, jobsets/NAME for a JobSet or, with another end, NAME:any, NAME:failed; several with commas")
	cmd.Flags().StringVar(&o.At, "at", "",
		"Start at a time, if the machine is on then, else as soon as it is: 22:00, +2h, 2026-12-01T08:00 or RFC 3339; with --after, when both hold")
	cmd.Flags().StringVar(&o.On, "on", "", "Submit to the cluster, or the other jobd, of this context of the kubeconfig, after a check of what would be missing there")
	_ = cmd.RegisterFlagCompletionFunc("on", s.completeOn) // it fails only for a flag that there is not
	cmd.Flags().BoolVar(&o.Force, "force", false, "With --on: submit in spite of what is missing there")
	cmd.Flags().StringVar(&o.DryRun, "dry-run", "none", "Print the Job instead of running it: client, or server to let the server check it")
	cmd.Flags().StringVarP(&o.Output, "output", "o", "", "With --dry-run or --detach: yaml, json or name")
	return cmd
}

func (s submitter) followCommand() *cobra.Command {
	o := submit.FollowOptions{}
	cmd := &cobra.Command{
		Use:                   "follow (jobs/NAME | cronjobs/NAME | jobsets/NAME)",
		DisableFlagsInUseLine: true,
		Short:                 "Follow a Job to its end: show its logs, exit with its exit code",
		Long: `Follow a Job, or the last Job of a CronJob, to its end, whoever has created it: show its logs from their beginning and its progress, and exit with its exit code. A JobSet is followed through all its attempts, and the exit code of one that has failed is that of the Job that made it fail.

` + exitCodes,
		Example: `  # Join a Job that runs, or see how one has ended
  jobctl follow jobs/pi`,
		Run: func(cmd *cobra.Command, args []string) {
			os.Exit(s.follow(cmd, &o, args))
		},
		ValidArgsFunction: completeFollowed(cmdutil.NewFactory(cmdutil.NewMatchVersionFlags(s.flags)), "cronjobs/", "jobsets/"),
	}
	o.AddFollowFlags(cmd.Flags(), submit.OnStartErrorWait)
	o.AddInterruptFlag(cmd.Flags())
	o.AddReportFlags(cmd.Flags())
	o.AddNotifyFlag(cmd.Flags())
	return cmd
}

// client returns a client of the server that the command line chooses, and its namespace.
func (s submitter) client() (*submit.Client, string, error) {
	config, err := s.flags.ToRESTConfig()
	if err != nil {
		return nil, "", err
	}
	namespace, _, err := s.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, "", err
	}
	client, err := submit.NewClient(config)
	if err != nil {
		return nil, "", err
	}
	client.Words = s.words()
	return client, namespace, nil
}

// fail prints an error, and returns the exit code of a command that has done nothing yet.
func (s submitter) fail(err error, code int) int {
	fmt.Fprintf(s.streams.ErrOut, "error: %s\n", printable.Text(err.Error()))
	return code
}

func (s submitter) submit(cmd *cobra.Command, o *submit.Options, args []string) int {
	here := s
	if o.On != "" {
		at, err := s.on(cmd, o.On)
		if err != nil {
			return s.fail(err, submit.ExitFailed)
		}
		s = at
	} else if o.Force {
		return s.fail(errors.New("--force is for --on: it submits in spite of what is missing there"), submit.ExitFailed)
	}
	o.Elsewhere = s.to.cluster || overssh.Is(s.to.socket)
	o.Here = !o.Elsewhere
	m, err := s.manifests(cmd, o, args)
	if err != nil {
		return s.fail(err, submit.ExitFailed)
	}
	if o.On != "" && o.DryRun != "client" {
		if err := here.submitOn(s, o, m); err != nil {
			return s.fail(err, submit.ExitCannot)
		}
	}
	if m.Set && (o.DryRun == "none" || o.DryRun == "server") && (o.Output == "" || o.Detach || o.DryRun == "server") {
		return s.submitSet(o, m)
	}
	switch o.DryRun {
	case "client":
		if m.AutoMemory {
			client, namespace, err := s.client()
			if err == nil {
				err = s.sizeMemory(m, client, namespace)
			}
			if err != nil {
				return s.fail(err, submit.ExitCannot)
			}
		}
		if err := o.Print(s.streams.Out, m, nil); err != nil {
			return s.fail(err, submit.ExitFailed)
		}
		return 0
	case "none", "server":
	default:
		return s.fail(fmt.Errorf("--dry-run: %q is not known: one of none, client, server", o.DryRun), submit.ExitFailed)
	}
	if o.Output != "" && !o.Detach && o.DryRun == "none" {
		return s.fail(errors.New("-o is for --dry-run and --detach: the standard output has the logs"), submit.ExitFailed)
	}
	if o.Notify && o.Detach {
		return s.fail(errors.New("--notify is for whoever follows the Job, which --detach does not: have a receiver told (jobd.dev/notify)"), submit.ExitFailed)
	}
	if err := s.checkInteractive(o); err != nil {
		return s.fail(err, submit.ExitFailed)
	}
	client, namespace, err := s.client()
	if err != nil {
		return s.fail(err, submit.ExitCannot)
	}
	if err := s.resolve(m, client, namespace); err != nil {
		return s.fail(s.refused.explain(err), submit.ExitCannot)
	}
	if when := m.StartsAt(); when != "" {
		fmt.Fprintln(s.streams.ErrOut, when)
	}
	if err := s.sizeMemory(m, client, namespace); err != nil {
		return s.fail(err, submit.ExitCannot)
	}
	signals, stop := submit.Signals() // before the Job exists: from then on an interrupt has to decide what becomes of it
	defer stop()
	if o.Detach || o.DryRun == "server" {
		job, err := m.Create(context.Background(), client, namespace, o.DryRun == "server")
		if err != nil {
			return s.fail(s.refused.explain(err), submit.ExitCannot)
		}
		if err := o.Print(s.streams.Out, m, job); err != nil {
			return s.fail(err, submit.ExitFailed)
		}
		return 0
	}
	if o.Stdin {
		return s.interact(client, o, m, namespace, signals)
	}
	return s.run(client, &o.FollowOptions, signals, true, func(ctx context.Context) (*batchv1.Job, error) {
		return m.Create(ctx, client, namespace, false)
	})
}

// manifests returns what the command line names: a script, files, or an image and a command.
func (s submitter) manifests(cmd *cobra.Command, o *submit.Options, args []string) (*submit.Manifests, error) {
	if user := cmd.Flags().Lookup("user"); user != nil && user.Changed && !s.to.cluster {
		return nil, errors.New("--user names a user of a kubeconfig: that of a container is the securityContext (runAsUser) of a file (-f)")
	}
	dash := cmd.ArgsLenAtDash()
	if dash == 1 && o.Image == "" && (o.AsMe || o.InPlace) {
		o.Image, args, dash = args[0], args[1:], 0
	}
	if script, rest, ok := submit.ScriptNamed(args, dash); ok {
		m, notes, err := o.Script(cmd.Flags(), script, rest, s.streams.In)
		for _, note := range notes {
			fmt.Fprintf(s.streams.ErrOut, "note: %s\n", printable.Text(note))
		}
		return m, err
	}
	if dash > 0 || dash < 0 && len(args) > 0 {
		return nil, submit.Unexpected("jobctl submit", o.Image, args)
	}
	if len(o.IgnoreDirectives) > 0 {
		return nil, errors.New("--ignore-directive is for scripts: jobctl submit --image IMAGE SCRIPT")
	}
	return o.Manifests(cmd.Flags(), args, s.streams.In)
}

// sizeMemory sets the memory of a Job with --memory auto, and says so.
func (s submitter) sizeMemory(m *submit.Manifests, client *submit.Client, namespace string) error {
	said, err := m.SizeMemory(context.Background(), client, namespace)
	if err == nil && said != "" {
		fmt.Fprintln(s.streams.ErrOut, printable.Text(said))
	}
	return err
}

func (s submitter) follow(_ *cobra.Command, o *submit.FollowOptions, args []string) int {
	if name, ok := setNamed(args); ok {
		if err := o.Check(); err != nil {
			return s.fail(err, submit.ExitFailed)
		}
		return s.followSet(o, func(ctx context.Context, client *submit.Client, namespace string) (*jobsetv1.JobSet, error) {
			return submit.GetJobSet(ctx, client.Kubernetes, namespace, name)
		})
	}
	name, ofCronJob, err := followedName(args)
	if err == nil {
		err = o.Check()
	}
	if err != nil {
		return s.fail(err, submit.ExitFailed)
	}
	client, namespace, err := s.client()
	if err != nil {
		return s.fail(err, submit.ExitCannot)
	}
	signals, stop := submit.Signals()
	defer stop()
	return s.run(client, o, signals, false, func(ctx context.Context) (*batchv1.Job, error) {
		if !ofCronJob {
			j, err := client.Kubernetes.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				if help := elsewhere(cmdutil.NewFactory(s.flags), name); help != "" {
					return nil, fmt.Errorf("%w\n%s", err, help)
				}
			}
			return j, err
		}
		cj, err := client.Kubernetes.BatchV1().CronJobs(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		runs, err := runsOf(ctx, client.Kubernetes, cj)
		if err != nil {
			return nil, err
		}
		return runs[0], nil
	})
}

// followedName returns the name of the Job, or of the CronJob whose last Job is meant: cronjobs/backup, cj/backup.
func followedName(args []string) (name string, ofCronJob bool, err error) {
	kind, name, slash := strings.Cut(strings.Join(args, "/"), "/")
	switch kind, _, _ := strings.Cut(kind, "."); kind {
	case "cronjob", "cronjobs", "cj":
		if slash && name != "" && !strings.Contains(name, "/") {
			return name, true, nil
		}
	}
	name, err = jobName(args)
	return name, false, err
}

// jobName returns the name of the Job that the arguments name: jobs/pi, job/pi, job.batch/pi, "job pi" or pi.
func jobName(args []string) (string, error) {
	given := strings.Join(args, "/")
	kind, name, slash := strings.Cut(given, "/")
	if !slash {
		kind, name = "job", given
	}
	switch kind {
	case "job", "jobs", "job.batch", "jobs.batch", "job.v1.batch", "jobs.v1.batch":
	default:
		return "", fmt.Errorf("%s is not a Job: name one as jobs/NAME", given)
	}
	if name == "" || strings.Contains(name, "/") {
		return "", errors.New("name one Job, as jobs/NAME")
	}
	return name, nil
}

// run gets a Job and follows it.
func (s submitter) run(
	client *submit.Client, o *submit.FollowOptions, signals <-chan os.Signal, isNew bool,
	get func(context.Context) (*batchv1.Job, error),
) int {
	if missing := o.DesktopMissing(); missing != "" {
		fmt.Fprintln(s.streams.ErrOut, "Warning: "+missing)
	}
	display, err := o.Display(s.streams.In, s.streams.Out, s.streams.ErrOut)
	if err != nil {
		return s.fail(err, submit.ExitFailed)
	}
	job, err := get(context.Background())
	err = s.refused.explain(err)
	if err != nil {
		return o.Finish(display, s.streams.ErrOut, submit.Ended{}, err)
	}
	again := "jobctl follow jobs/" + job.Name
	if job.Namespace != metav1.NamespaceDefault {
		again += " -n " + job.Namespace
	}
	again += s.words()
	f := submit.Follower{
		Client: client, Display: display, Signals: signals, OnInterrupt: o.OnInterrupt, OnStartError: o.OnStartError, Again: again,
	}
	ended, err := f.Follow(context.Background(), job, isNew)
	return o.Finish(display, s.streams.ErrOut, ended, err)
}

// resolve looks up what --after names (submit.Manifests.Resolve), and says what it has found out.
func (s submitter) resolve(m *submit.Manifests, client *submit.Client, namespace string) error {
	if len(m.After) == 0 {
		return nil
	}
	told, err := m.Resolve(context.Background(), client, namespace)
	for _, sentence := range told {
		fmt.Fprintln(s.streams.ErrOut, printable.Line(sentence))
	}
	return err
}
