package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/cmd/util/podcmd"
	"k8s.io/kubectl/pkg/polymorphichelpers"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/cmd/internal/progress"
	"github.com/jobd/jobd/cmd/internal/submit"
)

// jobLogs lets "logs jobs/NAME" read the log of the Job, with the output of all its pods, instead of the log of one
// pod. Everything else about the command is kubectl's.
type jobLogs struct {
	command *cobra.Command
	flags   *pflag.FlagSet
	out     io.Writer
	errOut  io.Writer
	// cluster says that the server was named, and may be one that has no logs of Jobs.
	cluster bool
	// far says that the way to the server may break off.
	far bool

	runs        int
	stream      string
	allRestarts bool
}

// extendLogs adds to kubectl's command for logs what jobd can do beyond a cluster.
func extendLogs(root *cobra.Command, getter genericclioptions.RESTClientGetter, streams genericiooptions.IOStreams) *jobLogs {
	logs, _, err := root.Find([]string{"logs"})
	if err != nil {
		panic(err) // kubectl has always had it
	}
	l := &jobLogs{command: logs, flags: logs.Flags(), out: streams.Out, errOut: streams.ErrOut}
	l.flags.IntVar(&l.runs, "runs", 1, "For a CronJob: the logs of so many of its last Jobs, the latest at the end")
	l.flags.StringVar(&l.stream, "stream", "", "Only what was written to this stream: stdout or stderr")
	l.flags.BoolVar(&l.allRestarts, "all-restarts", false,
		"For a Job: the logs of each container from before its restarts too, not only since the last one")
	kubectls := logs.Run
	logs.Run = func(cmd *cobra.Command, args []string) {
		if name, ok := setNamed(args); ok {
			cmdutil.CheckErr(l.logsOfSet(cmd, getter, name))
			return
		}
		if found, err := l.ofLeft(cmd, getter, args); found || err != nil {
			cmdutil.CheckErr(err)
			return
		}
		kubectls(cmd, jobInstead(contextOf(cmd), getter, args))
	}
	polymorphichelpers.LogsForObjectFn = l.wrap(polymorphichelpers.LogsForObjectFn)
	polymorphichelpers.AllPodLogsForObjectFn = polymorphichelpers.AllPodLogsForObjectFunc(
		l.wrap(polymorphichelpers.LogsForObjectFunc(polymorphichelpers.AllPodLogsForObjectFn)),
	)
	return l
}

// jobInstead names the Job of a name that stands alone, if there is no pod of that name: as with all commands that are about
// Jobs, "logs sweep" is meant for jobs/sweep.
func jobInstead(ctx context.Context, getter genericclioptions.RESTClientGetter, args []string) []string {
	if len(args) != 1 || strings.Contains(args[0], "/") {
		return args
	}
	namespace, _, err := getter.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return args
	}
	config, err := getter.ToRESTConfig()
	if err != nil {
		return args
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return args
	}
	if _, err := client.CoreV1().Pods(namespace).Get(ctx, args[0], metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return args
	}
	if _, err := client.BatchV1().Jobs(namespace).Get(ctx, args[0], metav1.GetOptions{}); err != nil {
		return args
	}
	return []string{"jobs/" + args[0]}
}

// said reports whether a flag of kubectl's is set.
func (l *jobLogs) said(flag string) bool {
	v, err := l.flags.GetBool(flag)
	return err == nil && v
}

// choose says whether the server is a cluster, and explains what the command can do there.
func (l *jobLogs) choose(cluster, far bool) {
	l.cluster, l.far = cluster, far
	logs := l.command
	logs.Long += "\n\nThe log of a CronJob (cronjobs/NAME) is that of its last Job."
	logs.Example += "\n\n  # What the last Job of a CronJob has printed, and the last three\n  jobctl logs cronjobs/backup\n  " +
		"jobctl logs cronjobs/backup --runs 3"
	if cluster {
		for _, name := range onlyOfJobd {
			l.flags.Lookup(name).Hidden = true
		}
		return
	}
	logs.Long += "\n\nThe log of a JobSet (jobsets/NAME) is that of its Jobs, one after the other, each line with its group and the index " +
		"of its Job. With --follow it goes on through all attempts of the JobSet, with up to 40 Jobs at a time."
	logs.Example += "\n\n  # What a JobSet prints, until it has finished\n  jobctl logs -f jobsets/train"
	logs.Long += "\n\nThe log of a Job (jobs/NAME) is that of all its pods, including pods that are gone. Of a Job that is gone itself, it is what the annotation jobd.dev/keep-logs has kept. --tail is how many " +
		"lines of it as a whole: those that were written last, whichever pods they are from. --prefix puts before each line its " +
		"pod, container, index and stream, and, where they are not the first: attempt=2, of the Job (jobctl retry); try=2, the " +
		"second pod of the index in that attempt; restart=1, of the container in its pod. On a terminal each line of several pods has a " +
		"short label without it: the index or the end of the pod's name; --prefix=false leaves that out."
	logs.Example += "\n\n  # All that the pods of a Job have printed, each line with where it is from\n  jobctl logs jobs/pi --prefix --all-restarts"
}

// onlyOfJobd are the flags for what a cluster cannot do.
var onlyOfJobd = []string{"stream", "all-restarts"}

func (l *jobLogs) wrap(others polymorphichelpers.LogsForObjectFunc) polymorphichelpers.LogsForObjectFunc {
	return func(getter genericclioptions.RESTClientGetter, object, options runtime.Object, timeout time.Duration,
		allContainers bool) (map[corev1.ObjectReference]rest.ResponseWrapper, error) {
		opts, ok := options.(*corev1.PodLogOptions)
		if !ok {
			return nil, fmt.Errorf("a log needs PodLogOptions, not %T", options)
		}
		cluster, err := l.isCluster(getter)
		if err != nil {
			return nil, err
		}
		for _, name := range onlyOfJobd {
			if cluster && l.flags.Changed(name) {
				return nil, fmt.Errorf("--%s is for jobd: a cluster does not have it", name)
			}
		}
		opts = opts.DeepCopy()
		if err := l.setStream(opts); err != nil {
			return nil, err
		}
		ofJob := func(j *batchv1.Job) (map[corev1.ObjectReference]rest.ResponseWrapper, error) {
			if cluster {
				return others(getter, j, opts, timeout, allContainers)
			}
			open := func(opts *corev1.PodLogOptions, sources bool) (map[corev1.ObjectReference]rest.ResponseWrapper, error) {
				return l.ofJob(getter, j, opts, allContainers, sources)
			}
			return l.resumed(opts, l.labels(j, opts), true, open)
		}
		switch o := object.(type) {
		case *batchv1.CronJob:
			return cronJobLogs(getter, o, l.runs, ofJob)
		case *batchv1.Job:
			if !l.flags.Changed("runs") {
				return ofJob(o)
			}
		}
		switch {
		case l.flags.Changed("runs"):
			return nil, errors.New("--runs is for CronJobs: jobctl logs cronjobs/NAME")
		case l.allRestarts:
			return nil, errors.New("--all-restarts is for Jobs and CronJobs: jobctl logs jobs/NAME")
		}
		return l.resumed(opts, progress.Labels{}, false, func(opts *corev1.PodLogOptions, _ bool) (map[corev1.ObjectReference]rest.ResponseWrapper, error) {
			return others(getter, object, opts, timeout, allContainers)
		})
	}
}

func (l *jobLogs) setStream(o *corev1.PodLogOptions) error {
	switch l.stream {
	case "":
	case "stdout", "stderr":
		o.Stream = ptr.To(strings.ToUpper(l.stream[:1]) + l.stream[1:])
	default:
		return fmt.Errorf("--stream is stdout or stderr, not %q", l.stream)
	}
	return nil
}

// labels returns those of a Job's log: on a terminal, unless there is something else that is to stand before its lines, or
// nothing.
func (l *jobLogs) labels(j *batchv1.Job, opts *corev1.PodLogOptions) progress.Labels {
	screen, ok := progress.IsTerminal(l.out)
	sources := l.sources()
	if !ok || opts.LimitBytes != nil || !sources && l.flags.Changed("prefix") {
		return progress.Labels{}
	}
	progress.Drawable(screen)
	shown := j.DeepCopy()
	if !l.said("all-containers") {
		shown.Spec.Template.Spec.InitContainers, shown.Spec.Template.Spec.Containers = nil, nil
	}
	return progress.LabelsOf(shown, sources, progress.Colors(screen))
}

// sources reports whether the source of each line was asked for.
func (l *jobLogs) sources() bool { return l.said("prefix") || l.said("all-pods") }

// resumed returns the requests for logs. Those of a jobd far away that are followed are continued where a connection has broken off, for which each
// line needs its time, and in the log of a Job its source, as it does for labels. How many bytes of that are to be shown the server cannot know.
func (l *jobLogs) resumed(
	asked *corev1.PodLogOptions, labels progress.Labels, ofJob bool,
	open func(o *corev1.PodLogOptions, sources bool) (map[corev1.ObjectReference]rest.ResponseWrapper, error),
) (map[corev1.ObjectReference]rest.ResponseWrapper, error) {
	resumes := asked.Follow && asked.LimitBytes == nil && l.far
	if !resumes && !labels.Any() {
		return open(asked.DeepCopy(), l.sources())
	}
	timed := asked.DeepCopy()
	timed.Timestamps = true
	requests, err := open(timed.DeepCopy(), true)
	for of, request := range requests {
		log := &submit.Log{
			OfJob: ofJob, Sources: l.sources(), Labels: labels, Times: asked.Timestamps, Once: !resumes,
			Notice: func(words string) { fmt.Fprintln(l.errOut, words) },
		}
		log.Open = func(ctx context.Context, since *time.Time) (io.ReadCloser, error) {
			rest := timed.DeepCopy()
			if since != nil {
				rest.SinceTime, rest.SinceSeconds, rest.TailLines = &metav1.Time{Time: *since}, nil, nil
			}
			again, err := open(rest, true)
			if err != nil {
				return nil, err
			}
			if again[of] == nil {
				return nil, fmt.Errorf("the log of %s is gone", of.Name)
			}
			return again[of].Stream(ctx)
		}
		requests[of] = resumedLog{request, log}
	}
	return requests, err
}

// resumedLog is the request for a log that is followed.
type resumedLog struct {
	rest.ResponseWrapper
	log *submit.Log
}

func (r resumedLog) Stream(ctx context.Context) (io.ReadCloser, error) {
	first, err := r.ResponseWrapper.Stream(ctx)
	if err != nil {
		return nil, err
	}
	out, in := io.Pipe()
	go func() { _ = in.CloseWithError(r.log.Copy(ctx, first, in)) }()
	return out, nil
}

// isCluster reports whether the server has no logs of Jobs. It is asked only if it was named: a kubeconfig may be that of a jobd.
func (l *jobLogs) isCluster(getter genericclioptions.RESTClientGetter) (bool, error) {
	if !l.cluster {
		return false, nil
	}
	server, err := getter.ToDiscoveryClient()
	if err != nil {
		return false, err
	}
	list, err := server.ServerResourcesForGroupVersion(batchv1.SchemeGroupVersion.String())
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "jobs/log" }), nil
}

// ofJob returns the request for the log of a Job.
func (l *jobLogs) ofJob(
	getter genericclioptions.RESTClientGetter, job *batchv1.Job, opts *corev1.PodLogOptions, allContainers, sources bool,
) (map[corev1.ObjectReference]rest.ResponseWrapper, error) {
	if opts.Container == "" && !allContainers {
		// As with a pod: the container that the annotation names, or the first, with a message that there are
		// others.
		pod := &corev1.Pod{ObjectMeta: job.Spec.Template.ObjectMeta, Spec: job.Spec.Template.Spec}
		container, err := podcmd.FindOrDefaultContainerByName(pod, "", false, l.errOut)
		if err != nil {
			return nil, err
		}
		opts.Container = container.Name
	}
	config, err := getter.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	request := client.BatchV1().RESTClient().Get().Namespace(job.Namespace).Resource("jobs").Name(job.Name).SubResource("log")
	for name, values := range l.query(opts, allContainers, sources) {
		for _, v := range values {
			request.Param(name, v)
		}
	}
	about := corev1.ObjectReference{
		APIVersion: "batch/v1", Kind: "Job", Namespace: job.Namespace, Name: job.Name, UID: job.UID,
	}
	return map[corev1.ObjectReference]rest.ResponseWrapper{about: request}, nil
}

// query returns the parameters of the request. The server writes the prefixes, since it alone knows which line belongs
// to which pod.
func (l *jobLogs) query(o *corev1.PodLogOptions, allContainers, sources bool) url.Values {
	q := url.Values{}
	for name, on := range map[string]bool{
		"follow": o.Follow, "previous": o.Previous, "timestamps": o.Timestamps, "allContainers": allContainers,
		"allRestarts": l.allRestarts, "prefix": sources,
	} {
		if on {
			q.Set(name, "true")
		}
	}
	for name, n := range map[string]*int64{
		"sinceSeconds": o.SinceSeconds, "tailLines": o.TailLines, "limitBytes": o.LimitBytes,
	} {
		if n != nil {
			q.Set(name, strconv.FormatInt(*n, 10))
		}
	}
	if o.Container != "" {
		q.Set("container", o.Container)
	}
	if o.SinceTime != nil {
		q.Set("sinceTime", o.SinceTime.UTC().Format(time.RFC3339))
	}
	if o.Stream != nil {
		q.Set("stream", *o.Stream)
	}
	return q
}
