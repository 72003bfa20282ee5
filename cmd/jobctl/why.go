package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"

	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/cmd/internal/submit"
)

// explained are the kinds that can be explained.
var explained = []string{"jobs", "pods", "cronjobs", "jobsets"}

// newWhyCommand makes the command that says why a Job, a pod, a CronJob or a JobSet is in the state that it is in.
// words are what the commands in the answer need to reach the same server.
func newWhyCommand(f cmdutil.Factory, streams genericiooptions.IOStreams, words func() string) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:                   "why (jobs/NAME | pods/NAME | cronjobs/NAME | jobsets/NAME) [-o json|yaml]",
		DisableFlagsInUseLine: true,
		Short:                 "Say why a Job, pod, CronJob or JobSet waits, or has failed",
		Long: `Say why a Job, pod, CronJob or JobSet is waiting or has failed: the chain of causes, what it is waiting for and until when, the last lines printed by the container that decided it, and commands that help. A bare name means a Job.

The answer comes from the state that the daemon itself decides by. A cluster (--context, --kubeconfig) has no such request: there the answer is pieced together from objects and events, says less, and tells you so.`,
		Example: `  # Why has this Job failed?
  jobctl why jobs/pi

  # What is this pod waiting for?
  jobctl why pods/pi-x7bqz

  # Why has this CronJob not started anything?
  jobctl why cronjobs/backup

  # Which group of this JobSet waits for which, which Job made it fail?
  jobctl why jobsets/train

  # For programs
  jobctl why jobs/pi -o json`,
		ValidArgsFunction: completion.SpecifiedResourceTypeAndNameCompletionFunc(f, explained),
		Run: func(cmd *cobra.Command, args []string) {
			cmdutil.CheckErr(printWhy(contextOf(cmd), f, streams, args, output, words()))
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "Output format. One of: (json, yaml)")
	return cmd
}

func printWhy(ctx context.Context, f cmdutil.Factory, streams genericiooptions.IOStreams, args []string, output, words string) error {
	if output != "" && output != "json" && output != "yaml" {
		return fmt.Errorf("unknown output format %q: one of json, yaml", output)
	}
	objects, err := named(f, explained, args)
	if err != nil {
		return err
	}
	client, err := f.KubernetesClientSet()
	if err != nil {
		return err
	}
	for i, object := range objects {
		said, err := explain(ctx, client, object)
		if err != nil {
			return err
		}
		switch output {
		case "json":
			err = writeJSON(streams.Out, said)
		case "yaml":
			if i > 0 {
				fmt.Fprintln(streams.Out, "---")
			}
			err = writeYAML(streams.Out, said)
		default:
			reaching(said.Causes, words)
			err = why.Print(streams.Out, said)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reaching lets the commands that help reach the server that was asked.
func reaching(causes []why.Cause, words string) {
	for i := range causes {
		for k, help := range causes[i].Help {
			causes[i].Help[k] = why.Reaching(help, words)
		}
		reaching(causes[i].Causes, words)
	}
}

// whatHistoryHas says how a Job has ended that is gone.
func whatHistoryHas(j *history.Job) string {
	words := fmt.Sprintf("The history has one of this name, which ended at %s: %s", j.Ended.UTC().Format(time.RFC3339), j.Result)
	if j.Reason != "" {
		words += " (" + j.Reason + ")"
	}
	for i, c := range j.ExitCodes {
		if words += ", "; i == 0 {
			words += "exit codes of its pods: "
		}
		words += fmt.Sprintf("%d (%dx)", c.Code, c.Count)
	}
	name := j.Name
	if j.Namespace != metav1.NamespaceDefault {
		name += " -n " + j.Namespace
	}
	return words + fmt.Sprintf(". All that is left of it: jobctl report jobs/%s >job.html", name)
}

// object names an object as people do on the command line.
type object struct{ resource, namespace, name string }

// oneJob returns the Job that the arguments name. Why says why it can be one only.
func oneJob(f cmdutil.Factory, args []string, why string) (object, error) {
	objects, err := named(f, []string{"jobs"}, args)
	switch {
	case err != nil:
		return object{}, err
	case len(objects) != 1:
		return object{}, errors.New("name one Job: " + why)
	}
	return objects[0], nil
}

// named returns the objects that the arguments name, as in "jobs/pi", "job pi" or "pi", which is a Job. Their kinds must
// be among the given ones.
func named(f cmdutil.Factory, kinds, args []string) ([]object, error) {
	namespace, _, err := f.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	all := false
	for _, arg := range args {
		all = all || strings.Contains(arg, "/")
	}
	switch {
	case len(args) == 0:
		return nil, fmt.Errorf("no object was named: give %s", strings.Join(alternativesOf(kinds), ", "))
	case len(args) == 1 && !all:
		args = []string{kinds[0] + "/" + args[0]}
	case !all:
		var slashed []string
		for _, name := range args[1:] {
			slashed = append(slashed, args[0]+"/"+name)
		}
		args = slashed
	}
	mapper, err := f.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	var objects []object
	for _, arg := range args {
		kind, name, ok := strings.Cut(arg, "/")
		if !ok || name == "" || strings.Contains(name, "/") {
			return nil, fmt.Errorf("%q does not name an object: %s", arg, strings.Join(alternativesOf(kinds), ", "))
		}
		gvr, err := mapper.ResourceFor(schema.ParseGroupResource(strings.ToLower(kind)).WithVersion(""))
		if err != nil {
			return nil, err
		}
		known := false
		for _, k := range kinds {
			known = known || gvr.Resource == k
		}
		if !known {
			return nil, fmt.Errorf("%s are not %s", gvr.Resource, strings.Join(kinds, " or "))
		}
		objects = append(objects, object{gvr.Resource, namespace, name})
	}
	return objects, nil
}

func alternativesOf(kinds []string) (all []string) {
	for _, kind := range kinds {
		all = append(all, kind+"/NAME")
	}
	return all
}

// explain asks the server why an object is in its state. If the server has no answer to that, it is put together from
// what its API shows.
func explain(ctx context.Context, client kubernetes.Interface, o object) (*why.Explanation, error) {
	of, err := readExplained(ctx, client, o)
	if apierrors.IsNotFound(err) && o.resource == "jobs" {
		if said, unknown := askServerWhy(ctx, client, o); unknown == nil {
			return said, nil // a success is expected of its name
		}
	}
	if err != nil {
		return nil, err
	}
	said, err := askServerWhy(ctx, client, o)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) {
		return explainFromAPI(ctx, client, of)
	}
	return said, err
}

// askServerWhy asks a server that knows it why an object is in its state.
func askServerWhy(ctx context.Context, client kubernetes.Interface, o object) (*why.Explanation, error) {
	answer := askedWhy(client, o).Do(ctx)
	if err := answer.Error(); err != nil { // not Raw's error, which does not have the server's words
		return nil, err
	}
	raw, err := answer.Raw()
	if err != nil {
		return nil, err
	}
	said := &why.Explanation{}
	if err := json.Unmarshal(raw, said); err != nil {
		return nil, fmt.Errorf("the server's answer: %w", err)
	}
	return said, nil
}

func askedWhy(client kubernetes.Interface, o object) *rest.Request {
	api := client.BatchV1().RESTClient()
	switch o.resource {
	case "jobsets":
		return client.Discovery().RESTClient().Get().AbsPath(submit.JobSetsPath(o.namespace), o.name, "why")
	case "pods":
		api = client.CoreV1().RESTClient()
	}
	return api.Get().Namespace(o.namespace).Resource(o.resource).Name(o.name).SubResource("why")
}
