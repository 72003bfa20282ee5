package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/images"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/cmd/internal/submit"
	"github.com/jobd/jobd/internal/ask"
	"github.com/jobd/jobd/internal/handover"
	"github.com/jobd/jobd/internal/printable"
)

// on returns a submitter for the server of another context of the kubeconfig. Of what the command line says of servers it has the file, the
// namespace and the time that a request may take.
func (s submitter) on(cmd *cobra.Command, name string) (submitter, error) {
	file := *s.flags.KubeConfig
	if file == os.DevNull { // on the socket nothing is taken from it
		file = ""
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	all, err := rules.Load()
	if err != nil {
		return s, fmt.Errorf("--on: %w", err)
	}
	if all.Contexts[name] == nil {
		return s, fmt.Errorf("--on: the kubeconfig has no context %q: \"jobctl config get-contexts\" lists those that there are", name)
	}
	to := &target{cluster: true, context: name, kubeconfig: file, socket: defaultSocket, verb: s.to.verb, place: name}
	to.byContext(func(string) string { return "" })
	flags := genericclioptions.NewConfigFlags(true).WithDiscoveryBurst(300).WithDiscoveryQPS(50).WithWarningPrinter(s.streams)
	flags.KubeConfig, flags.Context, flags.Timeout = &file, &name, s.flags.Timeout
	if given := cmd.Flags().Lookup("namespace"); given != nil && given.Changed {
		flags.Namespace = s.flags.Namespace
	}
	wrap := to.wrap(to.dialer(s.streams.ErrOut))
	flags.WithWrapConfigFn(func(c *rest.Config) *rest.Config {
		c = wrap(c)
		c.Wrap(s.refused.watch)
		return c
	})
	if !to.cluster {
		to.onlySocket(flags)
	}
	return submitter{flags: flags, to: to, streams: s.streams, refused: s.refused}, nil
}

// imagesHere returns the images of the jobd that the command line chooses; none if it does not say.
func (s submitter) imagesHere(ctx context.Context) []images.Image {
	if s.to.cluster {
		if client, _, err := s.client(); err == nil {
			return handover.ImagesOf(ctx, client.Kubernetes.Discovery())
		}
		return nil
	}
	list := images.List{}
	if err := ask.Daemon(s.to.line(s.streams.ErrOut)).JSON(ctx, http.MethodGet, images.Path, &list); err != nil {
		return nil
	}
	return list.Items
}

// check says what would be otherwise if work ran in the place of another submitter, and fails if it would not run there, unless it is forced.
func (s submitter) check(ctx context.Context, w handover.Work, at submitter, client *submit.Client, namespace string, force bool) error {
	jobd, err := handover.IsJobd(client.Kubernetes.Discovery())
	if err != nil {
		return err
	}
	there, err := handover.Look(ctx, client.Kubernetes, namespace, at.to.place, jobd, handover.Needs(w))
	if err != nil {
		return err
	}
	return s.judge(handover.Check(w, s.imagesHere(ctx), there), at.to.place, force)
}

// judge prints findings, and fails because of those that are wrong.
func (s submitter) judge(all []handover.Finding, place string, force bool) error {
	wrong := handover.Wrong(all)
	for _, f := range all {
		if !f.Wrong || force {
			fmt.Fprintf(s.streams.ErrOut, "Warning: %s\n", printable.Line(f.String()))
		}
	}
	if len(wrong) == 0 || force {
		return nil
	}
	lines := []string{"the Job would not run in " + place + " as it does here:"}
	for _, f := range wrong {
		lines = append(lines, "  "+f.String())
	}
	return errors.New(strings.Join(append(lines, "With --force it is handed over nevertheless."), "\n"))
}

// workOf returns what manifests hand over.
func workOf(m *submit.Manifests) (w handover.Work, err error) {
	from := runtime.DefaultUnstructuredConverter.FromUnstructured
	if m.Set {
		js := &jobsetv1.JobSet{}
		err = from(m.Job.Object, js)
		w = handover.OfSet(js)
	} else {
		j := &batchv1.Job{}
		err = from(m.Job.Object, j)
		w = handover.OfJob(j)
	}
	for _, u := range m.Others {
		w.Brings = append(w.Brings, u.GetKind()+"/"+u.GetName())
	}
	return w, err
}

// submitOn checks manifests that are submitted to another server.
func (s submitter) submitOn(at submitter, o *submit.Options, m *submit.Manifests) error {
	client, namespace, err := at.client()
	if err != nil {
		return err
	}
	if in := m.Job.GetNamespace(); in != "" {
		namespace = in
	}
	ctx := context.Background()
	// The objects beside the Job are not applied if the server would refuse the Job. It cannot try one that replaces another, or is in a
	// namespace that is still to be made.
	makes := slices.ContainsFunc(m.Others, func(u *unstructured.Unstructured) bool { return u.GetKind() == "Namespace" })
	if !m.Replace && !makes && o.DryRun != "server" {
		if m.Set {
			_, err = m.CreateSet(ctx, client, namespace, true)
		} else {
			_, err = m.Create(ctx, client, namespace, true)
		}
		if err != nil {
			return s.refused.explain(err)
		}
	}
	w, err := workOf(m)
	if err != nil {
		return err
	}
	return s.check(ctx, w, at, client, namespace, o.Force)
}

// words are what a command needs to reach the same server, with a space before them; empty if it needs nothing.
func (s submitter) words() (all string) {
	file, name := s.to.kubeconfig, s.to.context
	if s.to.cluster {
		file, name = *s.flags.KubeConfig, *s.flags.Context // on a socket these only stand in for what else there is
	}
	if file != "" {
		all = " --kubeconfig " + why.Word(file)
	}
	if name != "" {
		all += " --context " + why.Word(name)
	}
	if s.to.named && !s.to.cluster { // by --socket: what the environment or a context names is found again
		all += " --socket " + why.Word(s.to.socket)
	}
	return all
}

// reach lets a command that helps reach the same server, or says where to run it: those for images speak to jobd's socket alone.
func (s submitter) reach(help string) string {
	if s.to.cluster && strings.HasPrefix(help, "jobctl image ") {
		return help + "  # on that machine itself"
	}
	return why.Reaching(help, s.words())
}

// completeOn completes the contexts of the kubeconfig.
func (s submitter) completeOn(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	all, err := (&contexts{flags: s.flags}).files().GetStartingConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(all.Contexts)), cobra.ShellCompDirectiveNoFileComp
}
