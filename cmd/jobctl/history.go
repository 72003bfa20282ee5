package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	operator "k8s.io/apimachinery/pkg/selection"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/cmd/internal/about"
	"github.com/jobd/jobd/internal/printable"
)

// historical are the kinds whose runs the history has.
var historical = []string{"jobs", "cronjobs", "jobsets"}

// historyOptions are the flags of jobctl history.
type historyOptions struct {
	labels, since, user, output string
	waste                       string
	everywhere, pods, noHeaders bool
	values                      bool // some pods have them
	limit                       int
	gpus                        bool // there are Jobs that had some
}

// newHistoryCommand makes the command that lists Jobs that have ended, and what they have used.
func newHistoryCommand(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	o := &historyOptions{}
	cmd := &cobra.Command{
		Use:                   "history [NAME | jobs/NAME | cronjobs/NAME | jobsets/NAME] [-l SELECTOR] [--since 7d] [--user USER] [-o wide|json|yaml]",
		DisableFlagsInUseLine: true,
		Short:                 "List Jobs that have ended: who ran them, when, their results and what they used",
		Long: `List Jobs that have ended, the latest first: who created them, when they ran and how they ended, the exit codes of their pods, the CPU time they used, the peak memory of any one container, and how many retries there were. A bare name means a Job; cronjobs/NAME means the Jobs that the CronJob started, and jobsets/NAME those of the JobSet, of all its attempts.

A Job stays in this list after it is deleted, by a person or by its TTL, for as long as the settings --history-age and --history-size of jobd allow. A Job of a CronJob belongs to the user who created the CronJob. Exit codes are followed by the number of pods that had them, if there are several: "0(3),137".`,
		Example: `  # What ran in this namespace lately
  jobctl history

  # What each attempt of a Job has used, also when the Job is long gone
  jobctl history jobs/train --pods

  # The runs of a CronJob in the last week
  jobctl history cronjobs/backup --since 7d

  # The Jobs of a JobSet
  jobctl history jobsets/train

  # What asks for much more memory than it needs
  jobctl history --waste --since 30d

  # Who used how much processor time since a day
  jobctl history -A --since 2026-01-01 --limit 0 -o json |
    jq -r '[.items[] | {user, cpuSeconds}] | group_by(.user)[] | "\(.[0].user) \(map(.cpuSeconds) | add)"'`,
		ValidArgsFunction: completion.SpecifiedResourceTypeAndNameCompletionFunc(f, historical),
		Run: func(cmd *cobra.Command, args []string) {
			cmdutil.CheckErr(o.run(contextOf(cmd), f, streams, args))
		},
	}
	cmdutil.AddLabelSelectorFlagVar(cmd, &o.labels)
	cmd.Flags().BoolVarP(&o.everywhere, "all-namespaces", "A", false, "Include all namespaces")
	cmd.Flags().StringVar(&o.since, "since", "", "Only those that ended since then: a duration such as 12h or 7d, a day (2026-01-31), or a time (RFC 3339)")
	cmd.Flags().StringVar(&o.user, "user", "", "Only those that this user created, named as in the column USER")
	cmd.Flags().BoolVar(&o.pods, "pods", false, "A line for each pod instead of one for each Job; with -o json or yaml, the pods of each Job")
	cmd.Flags().StringVar(&o.waste, "waste", "", "A line for each name: what its runs asked for and did not use, the worst first, by memory or cpu")
	cmd.Flags().Lookup("waste").NoOptDefVal = wasteMemory
	cmd.Flags().IntVar(&o.limit, "limit", 100, "Show at most this many Jobs; 0 means all")
	cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "Print no headers")
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "Output format. One of: (wide, json, yaml)")
	return cmd
}

func (o *historyOptions) run(ctx context.Context, f cmdutil.Factory, streams genericiooptions.IOStreams, args []string) error {
	q, err := o.query(f, args)
	if err != nil {
		return err
	}
	client, err := f.KubernetesClientSet()
	if err != nil {
		return err
	}
	all := &history.List{
		TypeMeta: metav1.TypeMeta{APIVersion: history.Group + "/" + history.Version, Kind: history.Kind}, Items: []history.Job{},
	}
	found, limit := 0, o.limit
	if o.waste != "" {
		limit = wasteJobs
	}
	for {
		if q.Limit = history.MaxLimit; limit > 0 {
			q.Limit = min(q.Limit, limit-found)
		}
		request := client.BatchV1().RESTClient().Get().AbsPath(history.Path(q.Namespace))
		for name, values := range q.Parameters() {
			request.Param(name, values[0])
		}
		answer := request.Do(ctx)
		if err := answer.Error(); apierrors.IsNotFound(err) { // not Raw's error, which does not have the server's words
			return errors.New("the server keeps no history of Jobs: it is not jobd, or an older one")
		} else if err != nil {
			return err
		}
		raw, err := answer.Raw()
		if err != nil {
			return err
		}
		page := &history.List{}
		if err := json.Unmarshal(raw, page); err != nil {
			return fmt.Errorf("the server's answer: %w", err)
		}
		for _, j := range page.Items {
			if n := len(all.Items); !j.Part {
				found++
				all.Items = append(all.Items, j)
			} else if n > 0 {
				addPods(all.Items, j)
			}
		}
		q.Continue = page.Metadata.Continue
		if q.Continue == "" || limit > 0 && found >= limit {
			break
		}
	}
	if o.waste != "" {
		return o.printWaste(streams, all.Items, q.Continue != "")
	}
	all.Metadata.Continue = q.Continue
	switch o.output {
	case "json":
		err = writeJSON(streams.Out, all)
	case "yaml":
		err = writeYAML(streams.Out, all)
	default:
		if err = o.print(streams, all.Items); err == nil && q.Continue != "" {
			fmt.Fprintf(streams.ErrOut, "These are the %d that ended last; there may be more, which --limit 0 shows.\n", found)
		}
	}
	return err
}

// addPods adds the pods of a part to the Job that they belong to. They ended before those that it has.
func addPods(jobs []history.Job, part history.Job) {
	for i := len(jobs) - 1; i >= 0; i-- {
		if jobs[i].UID == part.UID {
			jobs[i].Pods = append(part.Pods, jobs[i].Pods...)
			return
		}
	}
}

// query returns what the arguments and flags ask for.
func (o *historyOptions) query(f cmdutil.Factory, args []string) (q history.Query, err error) {
	switch o.output {
	case "", "wide", "json", "yaml":
	default:
		return q, fmt.Errorf("unknown output format %q: one of wide, json, yaml", o.output)
	}
	switch o.waste {
	case "", wasteMemory, wasteCPU:
	default:
		return q, fmt.Errorf("--waste: %q is not known: one of memory, cpu", o.waste)
	}
	if o.waste != "" && (o.pods || o.output != "") {
		return q, errors.New("--waste adds runs up: it goes with neither --pods nor -o, which show single ones")
	}
	if o.limit < 0 {
		return q, errors.New("--limit must not be below 0")
	}
	q.User, q.Pods = o.user, o.pods
	if q.Since, err = parseSince(o.since, time.Now()); err != nil {
		return q, err
	}
	if o.labels != "" {
		if q.Labels, err = labels.Parse(o.labels); err != nil {
			return q, fmt.Errorf("--selector: %w", err)
		}
	}
	if !o.everywhere {
		if q.Namespace, _, err = f.ToRawKubeConfigLoader().Namespace(); err != nil {
			return q, err
		}
	}
	if len(args) == 0 {
		return q, nil
	}
	if len(args) == 1 && (args[0] == "jobs" || args[0] == "job") {
		return q, nil
	}
	objects, err := about.Named(f, historical, args)
	switch {
	case err != nil:
		return q, err
	case len(objects) > 1:
		return q, errors.New("name one Job, CronJob or JobSet, or select Jobs with --selector")
	case objects[0].Resource == "cronjobs":
		q.CronJob = objects[0].Name
	case objects[0].Resource == "jobsets":
		of, err := labels.NewRequirement(jobsetv1.JobSetNameKey, operator.Equals, []string{objects[0].Name})
		if err != nil {
			return q, err
		}
		if q.Labels == nil {
			q.Labels = labels.NewSelector()
		}
		q.Labels = q.Labels.Add(*of)
	default:
		q.Name = objects[0].Name
	}
	return q, nil
}

// parseSince reads a duration before now, in which days and weeks are allowed, a day or a time; "" is the zero time.
func parseSince(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, s, time.Local); err == nil {
		return t, nil
	}
	for unit, hours := range map[string]float64{"d": 24, "w": 7 * 24} {
		if number, ok := strings.CutSuffix(s, unit); ok {
			if n, err := strconv.ParseFloat(number, 64); err == nil && n >= 0 && n < 100_000 {
				return now.Add(-time.Duration(n * hours * float64(time.Hour))), nil
			}
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf(
		"--since: %q is neither a duration such as 12h or 7d, nor a day such as 2026-01-31, nor a time such as 2026-01-31T12:00:00Z",
		s,
	)
}

func (o *historyOptions) print(streams genericiooptions.IOStreams, jobs []history.Job) error {
	if len(jobs) == 0 {
		_, err := fmt.Fprintln(streams.ErrOut, "No Jobs found that have ended.")
		return err
	}
	for i := range jobs {
		o.gpus = o.gpus || jobs[i].GPUSeconds > 0
	}
	w := printers.GetNewTabWriter(printable.Writer(streams.Out))
	o.values = o.pods && slices.ContainsFunc(jobs, func(j history.Job) bool {
		return slices.ContainsFunc(j.Pods, func(p history.Pod) bool { return len(p.Values) > 0 })
	})
	columns, row := o.jobColumns(), o.jobRow
	if o.pods {
		columns, row = o.podColumns(), o.podRows
	}
	if !o.noHeaders {
		fmt.Fprintln(w, strings.Join(columns, "\t"))
	}
	for i := range jobs {
		row(w, &jobs[i])
	}
	return w.Flush()
}

func (o *historyOptions) jobColumns() []string {
	columns := []string{"NAME", "USER", "STARTED", "DURATION", "RESULT", "EXIT", "CPU", "MEMORY", "RETRIES"}
	if o.gpus {
		columns = append(columns, "GPU", "GPU-BUSY", "GPU-MEMORY")
	}
	if o.everywhere {
		columns = append([]string{"NAMESPACE"}, columns...)
	}
	if o.output == "wide" {
		columns = append(columns, "SUCCEEDED", "FAILED", "STOPPED", "REASON", "CRONJOB", "MANAGER", "CREATED", "ENDED", "CPU-REQUEST", "MEMORY-REQUEST")
	}
	return columns
}

func (o *historyOptions) jobRow(w io.Writer, j *history.Job) {
	cells := []string{
		j.Name, orNone(j.User), instant(j.Started), span(j.Started, j.Ended), j.Result, codesOf(j.ExitCodes),
		cpuOf(j), bytesOf(j.PeakMemory), strconv.Itoa(j.Retries),
	}
	cells = append(cells, o.gpuCells(&j.Use)...)
	if o.everywhere {
		cells = append([]string{j.Namespace}, cells...)
	}
	if o.output == "wide" {
		cells = append(cells, strconv.Itoa(j.Succeeded), strconv.Itoa(j.Failed), strconv.Itoa(j.Stopped), orNone(j.Reason),
			orNone(j.CronJob), orNone(j.ManagedBy), instant(&j.Created), instant(&j.Ended), cpusOf(j.Asked.CPURequest), requested(j.Asked.MemoryRequest))
	}
	fmt.Fprintln(w, strings.Join(cells, "\t"))
}

func (o *historyOptions) podColumns() []string {
	columns := []string{"JOB", "POD", "STARTED", "DURATION", "RESULT", "REASON", "EXIT", "CPU", "MEMORY", "RESTARTS"}
	if o.gpus {
		columns = append(columns, "GPU", "GPU-BUSY", "GPU-MEMORY")
	}
	if o.everywhere {
		columns = append([]string{"NAMESPACE"}, columns...)
	}
	if o.output == "wide" {
		columns = append(columns, "INDEX", "ENDED")
	}
	if o.values {
		columns = append(columns, "VALUES")
	}
	return columns
}

func (o *historyOptions) podRows(w io.Writer, j *history.Job) {
	for i := range j.Pods {
		p := &j.Pods[i]
		code, restarts := "", 0
		if p.ExitCode != nil {
			code = strconv.Itoa(*p.ExitCode)
		}
		for _, c := range p.Containers {
			restarts += c.Restarts
		}
		cells := []string{
			j.Name, p.Name, instant(p.Started), span(p.Started, p.Ended), p.Result, orNone(p.Reason), orNone(code),
			seconds(p.CPUSeconds), bytesOf(p.PeakMemory), strconv.Itoa(restarts),
		}
		cells = append(cells, o.gpuCells(&p.Use)...)
		if o.everywhere {
			cells = append([]string{j.Namespace}, cells...)
		}
		if o.output == "wide" {
			cells = append(cells, orNone(p.Index), instant(&p.Ended))
		}
		if o.values {
			cells = append(cells, orNone(batch.IndexWords(p.Values)))
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
}

// gpuCells returns for how long GPUs were had, how much of that they were busy, and the most of their memory.
func (o *historyOptions) gpuCells(u *history.Use) []string {
	switch {
	case !o.gpus:
		return nil
	case u.GPUSeconds == 0:
		return []string{"<none>", "<none>", "<none>"}
	}
	busy := "<unknown>"
	if u.GPUBusySeconds > 0 {
		busy = fmt.Sprintf("%.0f%%", min(100, 100*u.GPUBusySeconds/u.GPUSeconds))
	}
	return []string{seconds(u.GPUSeconds), busy, bytesOf(u.PeakGPUMemory)}
}

func orNone(s string) string {
	if s == "" {
		return "<none>"
	}
	return s
}

func instant(t *metav1.Time) string {
	if t == nil || t.IsZero() {
		return "<none>"
	}
	return t.Local().Format("2006-01-02T15:04:05")
}

func span(from *metav1.Time, to metav1.Time) string {
	if from == nil {
		return "<none>"
	}
	return max(0, to.Sub(from.Time)).String()
}

func codesOf(codes []history.ExitCode) string {
	var all []string
	for _, c := range codes {
		text := strconv.Itoa(c.Code)
		if c.Count > 1 {
			text += fmt.Sprintf("(%d)", c.Count)
		}
		all = append(all, text)
	}
	return orNone(strings.Join(all, ","))
}

// cpuOf returns how long a Job has had processors. How long one had that has run elsewhere is not known here.
func cpuOf(j *history.Job) string {
	if j.ManagedBy != "" && j.CPUSeconds == 0 {
		return "<unknown>"
	}
	return seconds(j.CPUSeconds)
}

// seconds returns a time on processors as people read it.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// bytesOf returns an amount of memory as people read it, in the units of the API.
func bytesOf(n int64) string {
	switch {
	case n <= 0:
		return "<unknown>"
	case n < 10<<20:
		return fmt.Sprintf("%.1fMi", float64(n)/(1<<20))
	case n < 10<<30:
		return fmt.Sprintf("%dMi", n>>20)
	}
	return fmt.Sprintf("%.1fGi", float64(n)/(1<<30))
}
