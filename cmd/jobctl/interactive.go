package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/polymorphichelpers"

	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/cmd/internal/about"
	"github.com/jobd/jobd/cmd/internal/interactive"
	"github.com/jobd/jobd/cmd/internal/submit"
	"github.com/jobd/jobd/internal/printable"
)

// checkInteractive refuses flags of submit that do not go with -it.
func (s submitter) checkInteractive(o *submit.Options) error {
	switch {
	case !o.Stdin:
		return nil
	case o.TTY && !o.Detach && !interactive.IsTerminal(s.streams.In):
		return errors.New("-t: the standard input is no terminal: leave -t out")
	case o.JUnit != "" || o.SummaryJSON != "":
		return errors.New("--junit and --summary-json do not go with -i: leave it out, or see jobctl follow")
	}
	return interactive.CheckKeys(o.DetachKeys)
}

// interact creates a Job to talk to, and stays with it.
func (s submitter) interact(client *submit.Client, o *submit.Options, m *submit.Manifests, namespace string, signals <-chan os.Signal) int {
	job, err := m.Create(context.Background(), client, namespace, false)
	if err != nil {
		return s.fail(s.refused.explain(err), submit.ExitCannot)
	}
	limit := time.Duration(*job.Spec.Template.Spec.ActiveDeadlineSeconds) * time.Second
	fmt.Fprintf(s.streams.ErrOut, "job %s: created; it ends %s after its start (--deadline), and with this command%s\n", job.Name, limit, leaving(o))
	return s.session(client, o.DetachKeys, true, signals, job)
}

// leaving says how a session is left.
func leaving(o *submit.Options) string {
	if !o.TTY {
		return ""
	}
	return "; " + o.DetachKeys + " leaves it running"
}

// session stays with a Job to its end.
func (s submitter) session(client *submit.Client, detachKeys string, own bool, signals <-chan os.Signal, job *batchv1.Job) int {
	config, err := s.flags.ToRESTConfig()
	if err != nil {
		return s.fail(err, submit.ExitCannot)
	}
	session := interactive.Session{
		Client: client, Config: config, In: s.streams.In, Out: s.streams.Out, ErrOut: s.streams.ErrOut,
		DetachKeys: detachKeys, Signals: signals, Own: own,
	}
	return session.Run(context.Background(), job)
}

// extendAttach lets "attach jobs/NAME" join the container of a Job that reads, when it runs: it shows what it has printed before, and ends
// with its exit code. Everything else about the command is kubectl's.
func (s submitter) extendAttach(root *cobra.Command) {
	attach, _, err := root.Find([]string{"attach"})
	if err != nil {
		panic(err) // kubectl has always had it
	}
	attach.Long += "\n\nWith jobs/NAME it waits for the container of a Job that reads a terminal or the standard input, shows what it has printed before, joins it, " +
		"and ends with its exit code. The Job goes on when the command ends before it."
	attach.Example += "\n\n  # Join a Job of jobctl submit -it again\n  jobctl attach jobs/bash-x7bqz"
	kubectls := attach.Run
	attach.Run = func(cmd *cobra.Command, args []string) {
		if len(args) == 0 || len(args) == 1 && !strings.Contains(args[0], "/") || cmd.Flags().Changed("container") {
			kubectls(cmd, args)
			return
		}
		name, err := jobName(args)
		if err != nil {
			kubectls(cmd, args)
			return
		}
		os.Exit(s.attachJob(cmd, name))
	}
}

func (s submitter) attachJob(cmd *cobra.Command, name string) int {
	keys, err := cmd.Flags().GetString("detach-keys")
	if err == nil {
		err = interactive.CheckKeys(keys)
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
	job, err := client.Kubernetes.BatchV1().Jobs(namespace).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return s.fail(err, submit.ExitCannot)
	}
	reads, terminal := false, false
	for _, c := range job.Spec.Template.Spec.Containers {
		reads, terminal = reads || c.Stdin || c.TTY, terminal || c.TTY
	}
	switch {
	case !reads:
		return s.fail(fmt.Errorf("no container of job %s reads a terminal or the standard input (stdin: true): jobctl%[2]s follow jobs/%[1]s shows what it prints, "+
			"and jobctl%[2]s exec -it POD -- sh enters a pod of it", name, s.words()), submit.ExitFailed)
	case terminal && !interactive.IsTerminal(s.streams.In):
		return s.fail(fmt.Errorf("job %s reads a terminal, and the standard input here is none", name), submit.ExitFailed)
	}
	return s.session(client, keys, false, signals, job)
}

// forEver is how long "run -i" waits for its pod: it may be in the queue for days.
const forEver = 10 * 365 * 24 * time.Hour

// waitInQueue lets "run -i" wait for as long as it takes, and say for what and at which place. An interrupt meanwhile removes the pod if
// --rm is given, which otherwise would start when nobody is there any more.
func (s submitter) waitInQueue(run *cobra.Command) {
	timeout := run.Flags().Lookup("pod-running-timeout")
	timeout.Usage = "How long to wait for the pod to run and, at last, to end (a duration such as 5s, 2m or 3h); as long as it takes if it is not given"
	timeout.DefValue = "0s"
	if err := timeout.Value.Set(forEver.String()); err != nil {
		panic(err) // it is a duration
	}
	kubectls := polymorphichelpers.AttachablePodForObjectFn
	polymorphichelpers.AttachablePodForObjectFn = func(
		getter genericclioptions.RESTClientGetter, object runtime.Object, timeout time.Duration,
	) (*corev1.Pod, error) {
		if pod, ok := object.(*corev1.Pod); ok && run.Flags().Changed("image") { // it is this command
			if config, err := getter.ToRESTConfig(); err == nil {
				if client, err := kubernetes.NewForConfig(config); err == nil {
					remove, _ := run.Flags().GetBool("rm")
					quiet, _ := run.Flags().GetBool("quiet")
					go s.sayWhy(client, pod, remove, quiet)
				}
			}
		}
		return kubectls(getter, object, timeout)
	}
}

// sayWhy says why a pod waits, until it runs.
func (s submitter) sayWhy(client kubernetes.Interface, pod *corev1.Pod, remove, quiet bool) {
	signals, stop := submit.Signals()
	defer stop()
	said := ""
	for pause := time.Second; ; pause = min(pause*3/2, 10*time.Second) {
		select {
		case <-time.After(pause):
		case got := <-signals:
			s.give(client, pod, remove)
			os.Exit(int(submit.InterruptedBy(got).Code))
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		now, err := client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && now.Status.Phase != corev1.PodPending {
			cancel()
			return // kubectl has the terminal
		}
		var answer *why.Explanation
		if err == nil && !quiet {
			answer, err = explain(ctx, client, about.Object{Resource: "pods", Namespace: pod.Namespace, Name: pod.Name})
		}
		cancel()
		if err != nil || quiet {
			continue
		}
		if first := why.First(answer.Causes); first != nil && !first.Passing() {
			if text := interactive.Waits(first); text != said {
				said = text
				fmt.Fprintf(s.streams.ErrOut, "pod %s waits: %s\n", pod.Name, text)
			}
		}
	}
}

// give removes a pod for which nobody waits any more, or says that it stays.
func (s submitter) give(client kubernetes.Interface, pod *corev1.Pod, remove bool) {
	if !remove {
		fmt.Fprintf(s.streams.ErrOut, "pod %s goes on waiting; delete it with: jobctl%[3]s delete pods/%[1]s -n %[2]s\n", pod.Name, pod.Namespace, s.words())
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
		fmt.Fprintf(s.streams.ErrOut, "error: pod %s is not deleted: %s\n", pod.Name, printable.Text(err.Error()))
	}
}
