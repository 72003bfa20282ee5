package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/scheme"
	kubectl "k8s.io/kubectl/pkg/scheme"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/cmd/internal/progress"
	"github.com/jobd/jobd/cmd/internal/submit"
	"github.com/jobd/jobd/internal/printable"
)

// withKinds has a builder return objects of their types, JobSets too. These are not added to kubectl's scheme, by which it would take
// them for a kind that every server can patch by strategic merge.
func withKinds(b *resource.Builder) *resource.Builder {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	for _, add := range []func(*runtime.Scheme) error{metav1.AddMetaToScheme, scheme.AddToScheme, jobsetv1.AddToScheme} {
		utilruntime.Must(add(s))
	}
	return b.WithScheme(s, append(slices.Clone(kubectl.Scheme.PrioritizedVersionsAllGroups()), jobsetv1.GroupVersion)...)
}

// isSetKind reports whether an argument names JobSets: jobsets/train, jobset, jobsets.jobset.x-k8s.io.
func isSetKind(arg string) bool {
	kind, _, _ := strings.Cut(arg, "/")
	kind, _, _ = strings.Cut(kind, ".")
	return kind == "jobset" || kind == "jobsets"
}

// setNamed returns the name of the one JobSet that arguments name: jobsets/train, or jobset train.
func setNamed(args []string) (name string, ok bool) {
	kind, name, slash := strings.Cut(strings.Join(args, "/"), "/")
	return name, slash && isSetKind(kind) && name != "" && !strings.Contains(name, "/")
}

// followSet gets a JobSet and follows it.
func (s submitter) followSet(o *submit.FollowOptions, get func(context.Context, *submit.Client, string) (*jobsetv1.JobSet, error)) int {
	if o.JUnit != "" || o.SummaryJSON != "" || o.Notify {
		return s.fail(errors.New("--junit, --summary-json and --notify are for Jobs, and this is a JobSet"), submit.ExitFailed)
	}
	client, namespace, err := s.client()
	if err != nil {
		return s.fail(err, submit.ExitCannot)
	}
	signals, stop := submit.Signals()
	defer stop()
	o.Prefix = true
	display, err := o.Display(s.streams.In, s.streams.Out, s.streams.ErrOut)
	if err != nil {
		return s.fail(err, submit.ExitFailed)
	}
	js, err := get(context.Background(), client, namespace)
	if err != nil {
		return submit.FinishSet(display, submit.SetEnded{}, s.refused.explain(err), nil)
	}
	of := "jobsets/" + js.Name
	if js.Namespace != metav1.NamespaceDefault {
		of += " -n " + js.Namespace
	}
	of += s.words()
	if o.Progress != progress.JSON {
		display.Event(progress.Event{Time: time.Now(), Type: "jobset", Namespace: js.Namespace, Name: js.Name, State: "followed"})
	}
	f := submit.SetFollower{Client: client, Display: display, Signals: signals, OnInterrupt: o.OnInterrupt, Again: "jobctl follow " + of}
	ended, err := f.Follow(context.Background(), js)
	return submit.FinishSet(display, ended, err, []string{"jobctl why " + of})
}

// submitSet creates a JobSet and follows it.
func (s submitter) submitSet(o *submit.Options, m *submit.Manifests) int {
	if o.Detach || o.DryRun == "server" {
		client, namespace, err := s.client()
		if err != nil {
			return s.fail(err, submit.ExitCannot)
		}
		err = s.resolve(m, client, namespace)
		var js *jobsetv1.JobSet
		if err == nil {
			js, err = m.CreateSet(context.Background(), client, namespace, o.DryRun == "server")
		}
		if err != nil {
			return s.fail(s.refused.explain(err), submit.ExitCannot)
		}
		if err := o.Print(s.streams.Out, m, js); err != nil {
			return s.fail(err, submit.ExitFailed)
		}
		return 0
	}
	return s.followSet(&o.FollowOptions, func(ctx context.Context, client *submit.Client, namespace string) (*jobsetv1.JobSet, error) {
		if err := s.resolve(m, client, namespace); err != nil {
			return nil, err
		}
		return m.CreateSet(ctx, client, namespace, false)
	})
}

// logsOfSet prints the logs of a JobSet.
func (l *jobLogs) logsOfSet(cmd *cobra.Command, flags genericclioptions.RESTClientGetter, name string) error {
	for _, f := range []string{"previous", "limit-bytes", "selector", "runs", "all-pods", "ignore-errors"} {
		if cmd.Flags().Changed(f) {
			return fmt.Errorf("--%s is not for JobSets: name one of its Jobs", f)
		}
	}
	logs := submit.SetLogs{Asked: url.Values{}, First: url.Values{}, Times: l.said("timestamps")}
	set := func(into url.Values, param, value string) {
		if value != "" {
			into.Set(param, value)
		}
	}
	container, _ := cmd.Flags().GetString("container")
	set(logs.Asked, "container", container)
	if l.stream != "" && l.stream != "stdout" && l.stream != "stderr" {
		return fmt.Errorf("--stream is stdout or stderr, not %q", l.stream)
	} else if l.stream != "" {
		set(logs.Asked, "stream", strings.ToUpper(l.stream[:1])+l.stream[1:])
	}
	if tail, _ := cmd.Flags().GetInt64("tail"); tail >= 0 {
		set(logs.First, "tailLines", strconv.FormatInt(tail, 10))
	}
	if since, _ := cmd.Flags().GetDuration("since"); since > 0 {
		set(logs.First, "sinceSeconds", strconv.FormatInt(int64((since+time.Second-1)/time.Second), 10))
	}
	from, _ := cmd.Flags().GetString("since-time")
	set(logs.First, "sinceTime", from)
	namespace, _, err := flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return err
	}
	config, err := flags.ToRESTConfig()
	if err != nil {
		return err
	}
	client, err := submit.NewClient(config)
	if err != nil {
		return err
	}
	ctx := contextOf(cmd)
	js, err := submit.GetJobSet(ctx, client.Kubernetes, namespace, name)
	if err != nil {
		return err
	}
	display := progress.NewQuiet(nil, os.Stdout, l.errOut, true)
	if !l.said("follow") {
		return errors.Join(submit.PrintSetLogs(ctx, client, js, display, logs), display.Close())
	}
	signals, stop := submit.Signals()
	defer stop()
	f := submit.SetFollower{Client: client, Display: display, Signals: signals, Logs: logs}
	_, err = f.Follow(ctx, js)
	return errors.Join(err, display.Close())
}

// awaited is something of which the end is waited for.
type awaited struct {
	name string
	// end returns the end: whether that is success, and why, if it is not.
	end func(ctx context.Context, wait bool) (complete bool, reason, message string, err error)
}

func awaitedJob(client *submit.Client, j *batchv1.Job) awaited {
	return awaited{"job.batch/" + j.Name, func(ctx context.Context, wait bool) (bool, string, string, error) {
		end, err := submit.AwaitEnd(ctx, client.Kubernetes, j, wait)
		if err != nil {
			return false, "", "", err
		}
		return end.Type == batchv1.JobComplete, end.Reason, printable.Line(end.Message), nil
	}}
}

func awaitedSet(client *submit.Client, js *jobsetv1.JobSet) awaited {
	return awaited{"jobset.jobset.x-k8s.io/" + js.Name, func(ctx context.Context, wait bool) (bool, string, string, error) {
		end, err := submit.AwaitEndOfSet(ctx, client.Dynamic, js, wait)
		if err != nil {
			return false, "", "", err
		}
		return end.Type == string(jobsetv1.JobSetCompleted), end.Reason, printable.Line(end.Message), nil
	}}
}
