package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/kubernetes"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/indexes"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/cmd/internal/about"
	"github.com/jobd/jobd/cmd/internal/submit"
	"github.com/jobd/jobd/internal/printable"
)

// Results are what the pods of a Job have left as their termination messages, as "jobctl results -o json" writes them.
type Results struct {
	APIVersion string   `json:"apiVersion"` // resultsVersion
	Kind       string   `json:"kind"`       // Results
	Namespace  string   `json:"namespace"`
	Job        string   `json:"job"`
	Items      []Result `json:"items"`

	unlisted int // indexes that are too many to be listed though they have had no pod
}

const resultsVersion = "results.jobd.dev/v1"

// Result is that of an index, by the pod that has succeeded or else was its last; of a Job without indexes that of a pod.
type Result struct {
	Index  *int              `json:"index,omitempty"`
	Values map[string]string `json:"values,omitempty"` // of the index
	// Result is Succeeded, Failed, Stopped, Running or Waiting.
	Result   string `json:"result"`
	ExitCode *int   `json:"exitCode,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Pod      string `json:"pod,omitempty"` // empty: the index has had none
	Message  string `json:"message,omitempty"`

	names []string // of its values, in order
}

func newResultsCommand(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	output := ""
	cmd := &cobra.Command{
		Use:                   "results jobs/NAME [-o csv|json]",
		DisableFlagsInUseLine: true,
		Short:                 "List what the pods of a Job have left as their results, beside the values of their indexes",
		Long: `List what the pods of a Job have left as their results: what a container has written to /dev/termination-log, at most 4096 bytes. Each index is a row, with its values if "jobctl submit --param" or --each has given it some; of a Job without indexes each pod is a row.

The results of pods that are gone, and of a Job that was deleted, come from the history, which keeps 1 MiB of them for each Job. A container that writes nothing there has no result; with terminationMessagePolicy: FallbackToLogsOnError, one that fails has the end of its log.`,
		Example: `  # As a table
  jobctl results jobs/sweep

  # For a spreadsheet, or a program
  jobctl results jobs/sweep -o csv > sweep.csv
  jobctl results jobs/sweep -o json`,
		ValidArgsFunction: completion.SpecifiedResourceTypeAndNameCompletionFunc(f, []string{"jobs"}),
		Run: func(cmd *cobra.Command, args []string) {
			cmdutil.CheckErr(writeResults(contextOf(cmd), f, streams, output, args))
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "csv or json; a table without it")
	return cmd
}

func writeResults(ctx context.Context, f cmdutil.Factory, streams genericiooptions.IOStreams, output string, args []string) error {
	if !slices.Contains([]string{"", "csv", "json"}, output) {
		return fmt.Errorf("--output: %q is not known: one of csv, json", output)
	}
	job, err := about.OneJob(f, args, "results are those of one")
	if err != nil {
		return err
	}
	client, err := f.KubernetesClientSet()
	if err != nil {
		return err
	}
	r, leftOut, err := resultsOf(ctx, client, job.Namespace, job.Name)
	if err != nil {
		return err
	}
	if leftOut > 0 {
		fmt.Fprintf(streams.ErrOut, "Warning: the history has not kept the results of %d pods, since those before were more than 1 MiB\n", leftOut)
	}
	if r.unlisted > 0 {
		fmt.Fprintf(streams.ErrOut, "Warning: the last %d indexes are listed only if they have had a pod\n", r.unlisted)
	}
	switch output {
	case "json":
		return writeJSON(streams.Out, r)
	case "csv":
		return r.csv(streams.Out)
	}
	return r.table(streams)
}

// resultsOf collects the results of a Job, from its pods and from the history; leftOut is of how many pods the latter has none.
func resultsOf(ctx context.Context, client kubernetes.Interface, namespace, name string) (r *Results, leftOut int, err error) {
	r = &Results{APIVersion: resultsVersion, Kind: "Results", Namespace: namespace, Job: name, Items: []Result{}}
	j, err := client.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
	gone := err
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, 0, err
	}
	uid := ""
	var values *batch.IndexValues
	var all []Result
	if gone == nil {
		uid, values = string(j.UID), submit.IndexValues(ctx, client, j)
		if all, err = podResults(ctx, client, j, values); err != nil {
			return nil, 0, err
		}
	}
	if gone != nil || batch.End(&j.Status) != nil {
		past, err := historyOf(ctx, client, namespace, name, uid, true)
		switch {
		case err != nil:
			return nil, 0, err
		case past == nil && gone != nil:
			return nil, 0, gone
		case past != nil:
			leftOut = past.MessagesLeftOut
			all = withPast(all, past.Pods)
		}
	}
	if gone == nil && indexes.Listed < ptr.Deref(j.Spec.Completions, 0) {
		r.unlisted = int(*j.Spec.Completions) - indexes.Listed
	}
	if gone == nil && ptr.Deref(j.Spec.CompletionMode, "") == batchv1.IndexedCompletion {
		for index := range min(indexes.Listed, int(ptr.Deref(j.Spec.Completions, 0))) { // those that have had no pod
			all = append(all, Result{Index: &index, Result: "Waiting", names: valueNames(values.Of(index)), Values: valuesOf(values.Of(index))})
		}
	}
	r.Items = oneOfEach(all)
	return r, leftOut, nil
}

// podResults returns those of the pods that are there, the oldest first.
func podResults(ctx context.Context, client kubernetes.Interface, j *batchv1.Job, values *batch.IndexValues) (all []Result, err error) {
	options := metav1.ListOptions{LabelSelector: labels.Set{batchv1.ControllerUidLabel: string(j.UID)}.String(), Limit: 1000}
	var pods []corev1.Pod
	for {
		list, err := client.CoreV1().Pods(j.Namespace).List(ctx, options)
		if err != nil {
			return nil, err
		}
		pods = append(pods, list.Items...)
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	slices.SortStableFunc(pods, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for i := range pods {
		p := &pods[i]
		r := Result{Pod: p.Name, Message: podspec.TerminationMessage(p), Reason: p.Status.Reason}
		switch {
		case p.Status.Phase == corev1.PodSucceeded:
			r.Result, r.ExitCode = history.PodSucceeded, new(int)
		case p.Status.Phase == corev1.PodFailed:
			r.Result = history.PodFailed
			for c := range podspec.Statuses(p) {
				if t := c.State.Terminated; t != nil && podspec.HasFailed(&p.Spec, c.Name, t) {
					code := int(t.ExitCode)
					r.ExitCode, r.Reason = &code, cmp.Or(r.Reason, t.Reason)
				}
			}
		case p.Status.Phase == corev1.PodRunning:
			r.Result = "Running"
		default:
			r.Result = "Waiting"
		}
		if index, err := strconv.Atoi(p.Annotations[batchv1.JobCompletionIndexAnnotation]); err == nil {
			r.Index, r.names, r.Values = &index, valueNames(values.Of(index)), valuesOf(values.Of(index))
		}
		all = append(all, r)
	}
	return all, nil
}

// withPast puts those pods of the history first that are not there any more.
func withPast(there []Result, past []history.Pod) (all []Result) {
	known := map[string]bool{}
	for _, r := range there {
		known[r.Pod] = true
	}
	for _, p := range past {
		if known[p.Name] {
			continue
		}
		r := Result{Pod: p.Name, Result: p.Result, ExitCode: p.ExitCode, Reason: p.Reason, Message: p.Message}
		if index, err := strconv.Atoi(p.Index); err == nil {
			r.Index, r.names, r.Values = &index, valueNames(p.Values), valuesOf(p.Values)
		}
		all = append(all, r)
	}
	return append(all, there...)
}

// oneOfEach returns one result for each index, in their order: that which has succeeded, else the last. Those without index all stay.
func oneOfEach(all []Result) []Result {
	at := map[int]int{}
	kept := []Result{}
	for _, r := range all {
		if r.Index == nil {
			kept = append(kept, r)
			continue
		}
		i, known := at[*r.Index]
		switch {
		case !known:
			at[*r.Index] = len(kept)
			kept = append(kept, r)
		case kept[i].Result != history.PodSucceeded && r.Pod != "":
			if len(r.names) == 0 { // as of a pod whose ConfigMap is gone
				r.names, r.Values = kept[i].names, kept[i].Values
			}
			kept[i] = r
		}
	}
	slices.SortStableFunc(kept, func(a, b Result) int { return cmp.Compare(ptr.Deref(a.Index, 0), ptr.Deref(b.Index, 0)) })
	return kept
}

func valueNames(values []batch.IndexValue) (names []string) {
	for _, v := range values {
		names = append(names, v.Name)
	}
	return names
}

func valuesOf(values []batch.IndexValue) map[string]string {
	if len(values) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, v := range values {
		out[v.Name] = v.Value
	}
	return out
}

// columns are the names of all values, and whether there are indexes.
func (r *Results) columns() (names []string, indexed bool) {
	for _, item := range r.Items {
		indexed = indexed || item.Index != nil
		for _, name := range item.names {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, indexed
}

// csv writes a row for each result. A variable that is called as a column of ours is param.NAME.
func (r *Results) csv(to io.Writer) error {
	names, _ := r.columns()
	own := []string{"index", "result", "exitCode", "reason", "pod", "message"}
	head := own[:1:1]
	for _, name := range names {
		if slices.Contains(own, name) {
			name = "param." + name
		}
		head = append(head, name)
	}
	out := csv.NewWriter(to)
	_ = out.Write(append(head, own[1:]...)) // Error returns it
	for _, item := range r.Items {
		_ = out.Write(slices.Concat(
			[]string{numberOf(item.Index)}, item.valuesOf(names),
			[]string{item.Result, numberOf(item.ExitCode), item.Reason, item.Pod, strings.TrimRight(item.Message, "\n")},
		))
	}
	out.Flush()
	return out.Error()
}

func (r *Results) table(streams genericiooptions.IOStreams) error {
	if len(r.Items) == 0 {
		fmt.Fprintln(streams.ErrOut, "The Job has had no pods.")
		return nil
	}
	names, indexed := r.columns()
	w := printers.GetNewTabWriter(streams.Out)
	head := []string{"POD"}
	if indexed {
		head = []string{"INDEX"}
	}
	for _, name := range names {
		head = append(head, strings.ToUpper(name))
	}
	fmt.Fprintln(w, strings.Join(append(head, "RESULT", "EXIT", "MESSAGE"), "\t"))
	for _, item := range r.Items {
		cells := []string{item.Pod}
		if indexed {
			cells = []string{orNone(numberOf(item.Index))}
		}
		cells = append(cells, item.valuesOf(names)...)
		cells = append(cells, item.Result, orNone(numberOf(item.ExitCode)), item.said())
		for i := range cells {
			cells[i] = printable.Line(cells[i])
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

// said is what a pod has left; of one that has left nothing, what became of it, if its exit code does not say that.
func (r *Result) said() string {
	if message := strings.TrimSpace(r.Message); message != "" || r.Reason == "Error" || r.Reason == "Completed" {
		return message
	}
	return r.Reason
}

func (r *Result) valuesOf(names []string) (all []string) {
	for _, name := range names {
		all = append(all, r.Values[name])
	}
	return all
}

func numberOf(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}
