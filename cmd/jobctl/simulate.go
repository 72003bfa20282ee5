package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/scheme"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/cmd/internal/about"
	"github.com/jobd/jobd/daemon/cron"
	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/requests"
	"github.com/jobd/jobd/daemon/simulation"
	"github.com/jobd/jobd/internal/quantity"
)

// simulate plays a Job without a daemon.
type simulate struct {
	f       cmdutil.Factory
	streams genericiooptions.IOStreams

	file, from, output string
	pods               []string
	seed               uint64
	allocatable        string
	maxPods            int
	base, limit        time.Duration
	starvation         time.Duration
	order              string
	halfLife           time.Duration
	created            []string
}

// newSimulateCommand makes the command that plays a Job in virtual time.
func newSimulateCommand(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	s := &simulate{f: f, streams: streams}
	cmd := &cobra.Command{
		Use:                   "simulate (-f FILE | --from jobs/NAME) [--pod 'WHICH: exit=CODE after=DURATION']...",
		DisableFlagsInUseLine: true,
		Short:                 "Play a Job or JobSet in virtual time, to see what its rules do",
		Long: `Play a Job in virtual time, to see what its rules do: which pods are created when, what each counts as, and how the Job ends. It makes the daemon's own decisions, but needs no daemon and starts nothing. Containers are made up: --pod says how they end, and all others succeed after a second. A container that is stopped ends at once.

The part of --pod before the colon selects container starts: index=3 or index=0-4, pod=2 (in the order of their creation, from 1), start=1 (the starts of an index, from 1), restart=0 (the starts in one pod, from 0), container=NAME, job=NAME, group=NAME and attempt=2 of a JobSet, chance=0.1; nothing or * selects all. The part after it says how they end: exit=CODE and after=DURATION, or after=2s-10s for a random time in between; oom to be killed for lack of memory, or needs=100Mi for that only where the limit is lower. The first --pod that matches applies.

Several Jobs and JobSets of a file are played beside each other on one machine, with what its PriorityClasses and Namespaces say: who starts first and who is preempted, or paused for others; which Jobs wait for others, or for a place in their concurrency group. All are created at once, unless --create says when.

--from takes the durations and exit codes of a real Job's pods, and the Job itself unless -f names another.`,
		Example: `  # What does backoffLimit do if every pod fails?
  jobctl simulate -f job.yaml --pod '*: exit=1 after=2s'

  # Index 3 fails twice, then succeeds
  jobctl simulate -f job.yaml --pod 'index=3 start=1-2: exit=1 after=2s' --pod '*: after=5s'

  # One pod in ten fails, on a machine with 4 CPUs; the same seed gives the same pods
  jobctl simulate -f job.yaml --pod 'chance=0.1: exit=1 after=1s-30s' --seed 7 --allocatable cpu=4

  # How often is it killed until jobd.dev/oom-memory-factor has given it enough memory?
  jobctl simulate -f job.yaml --pod '*: needs=3Gi after=1m'

  # What would other rules have done with last night's Job?
  jobctl simulate --from jobs/nightly -f changed.yaml

  # Who goes first, if the second Job comes after a minute?
  jobctl simulate -f jobs.yaml --allocatable cpu=4 --create urgent=1m --pod 'job=urgent: after=10m' --pod '*: after=1h'

  # The workers of a JobSet fail in its first attempt
  jobctl simulate -f jobset.yaml --pod 'group=workers attempt=1: exit=1 after=1m' --pod '*: after=5m'

  # For programs
  jobctl simulate -f job.yaml -o json`,
		Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			cmdutil.CheckErr(s.run(contextOf(cmd)))
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&s.file, "filename", "f", "", "File with Jobs, JobSets, and CronJobs, of which one run each is simulated; - reads the standard input")
	flags.StringVar(&s.from, "from", "", "Take durations and exit codes from this Job: jobs/NAME")
	flags.StringArrayVar(&s.pods, "pod", nil, "How certain containers end, for example 'index=3 start=1: exit=1 after=2s'")
	flags.Uint64Var(&s.seed, "seed", 1, "Seed for random choices; the same seed produces the same result")
	flags.StringVar(&s.allocatable, "allocatable", "", "What pods may request in total, for example cpu=4,memory=8Gi (default unlimited)")
	flags.IntVar(&s.maxPods, "max-pods", 0, "How many pods may run at a time (default unlimited)")
	flags.DurationVar(&s.base, "pod-backoff-base", 10*time.Second, "Back-off after the first failure, as in jobd serve")
	flags.DurationVar(&s.limit, "pod-backoff-cap", 6*time.Minute, "Longest back-off, as in jobd serve")
	flags.DurationVar(&s.starvation, "starvation-after", 10*time.Minute, "How long a pod waits before room is kept for it, as in jobd serve")
	flags.StringVar(&s.order, "queue-order", "age", "What orders pods of the same priority: age or fair, as in jobd serve")
	flags.DurationVar(&s.halfLife, "fair-share-half-life", 24*time.Hour, "With --queue-order fair: after how long use counts for half, as in jobd serve")
	flags.StringArrayVar(&s.created, "create", nil, "When a Job or JobSet of several is created: NAME=DURATION from the start")
	flags.StringVarP(&s.output, "output", "o", "", "Output format. One of: (json)")
	cmdutil.CheckErr(cmd.MarkFlagFilename("filename", "yaml", "yml", "json"))
	cmdutil.CheckErr(cmd.RegisterFlagCompletionFunc("pod", s.completePod))
	return cmd
}

func (s *simulate) run(ctx context.Context) error {
	c, err := s.config()
	if err != nil {
		return err
	}
	var rules []simulation.Rule
	for _, text := range s.pods {
		r, err := simulation.ParseRule(text)
		if err != nil {
			return fmt.Errorf("--pod: %w", err)
		}
		rules = append(rules, r)
	}
	other := func(simulation.Start) simulation.End { return simulation.Default }
	if s.from != "" {
		var pods []*corev1.Pod
		if c.Job, pods, err = s.recorded(ctx); err != nil {
			return err
		}
		other = simulation.Recorded(pods)
	}
	var runs []cronRun
	if s.file != "" {
		if runs, err = s.readInto(&c); err != nil {
			return err
		}
	}
	if err := s.prepareAll(ctx, &c); err != nil {
		return err
	}
	c.Behave = simulation.Rules(rules, s.seed, other)
	result, err := simulation.Run(c)
	if err != nil {
		return err
	}
	if s.output == "json" {
		return writeJSON(s.streams.Out, struct {
			*simulation.Result
			NextRuns []cronRun `json:"nextRuns,omitempty"`
		}{result, runs})
	}
	return s.print(&c, runs, result)
}

// config returns what the flags say about the daemon and the machine.
func (s *simulate) config() (c simulation.Config, err error) {
	c = simulation.Config{
		Settings: job.Settings{BackoffBase: s.base, BackoffCap: s.limit}, MaxPods: s.maxPods, StarvationAfter: s.starvation,
		Begin: time.Now().Truncate(time.Second),
	}
	switch {
	case s.output != "" && s.output != "json":
		return c, fmt.Errorf("unknown output format %q: one of json", s.output)
	case s.file == "" && s.from == "":
		return c, errors.New("name the Job: -f FILE, or --from jobs/NAME")
	case s.base <= 0 || s.limit < s.base:
		return c, errors.New("--pod-backoff-base must be longer than 0, and --pod-backoff-cap not shorter than that")
	case s.starvation < 0:
		return c, errors.New("--starvation-after must not be negative")
	case s.maxPods < 0:
		return c, fmt.Errorf("--max-pods must not be negative, and is %d", s.maxPods)
	case s.order != "age" && s.order != "fair":
		return c, fmt.Errorf("unknown --queue-order %q: one of age, fair", s.order)
	case s.halfLife < time.Minute:
		return c, errors.New("--fair-share-half-life must not be shorter than a minute")
	case s.order == "fair":
		c.HalfLife = s.halfLife
	}
	if c.Allocatable, err = amounts(s.allocatable); err != nil {
		return c, fmt.Errorf("--allocatable: %w", err)
	}
	return c, nil
}

// readInto reads the file, and returns the next times of the CronJob if it is about a single run of one.
func (s *simulate) readInto(c *simulation.Config) ([]cronRun, error) {
	read, err := s.read()
	if err != nil {
		return nil, err
	}
	switch {
	case s.from != "" && len(read.sets) > 0:
		return nil, fmt.Errorf("%s has a JobSet, and --from is about a Job", s.file)
	case s.from != "" && len(read.jobs) > 1:
		return nil, fmt.Errorf("%s has several Jobs, and --from is about one", s.file)
	}
	c.Job, c.JobSets, c.Namespaces, c.PriorityClasses = nil, read.sets, read.namespaces, read.classes
	if len(read.jobs) > 0 {
		c.Job, c.More = read.jobs[0], read.jobs[1:]
	}
	if read.cronJob == nil || len(read.jobs) != 1 {
		return nil, nil
	}
	return nextRuns(read.cronJob, c.Begin)
}

func (s *simulate) print(c *simulation.Config, runs []cronRun, result *simulation.Result) error {
	for i, r := range runs {
		if i == 0 {
			fmt.Fprintln(s.streams.Out, "The next times of the CronJob, and when their Jobs start:")
		}
		fmt.Fprintf(s.streams.Out, "  %s  %s\n", r.Scheduled.Format("Mon 2006-01-02 15:04:05 MST"), startsLater(r.Starts.Sub(r.Scheduled)))
		if i == len(runs)-1 {
			fmt.Fprintln(s.streams.Out, "\nOne of them:")
		}
	}
	if c.Job != nil && len(c.More)+len(c.JobSets) == 0 {
		base, limit, err := batch.JobBackoff(c.Job.Annotations)
		if err != nil {
			return err
		}
		if base > 0 || limit > 0 {
			fmt.Fprintf(s.streams.Out, "The back-off is the Job's own: %s=%q %s=%q\n\n", batch.BackoffBaseAnnotation,
				c.Job.Annotations[batch.BackoffBaseAnnotation], batch.BackoffCapAnnotation, c.Job.Annotations[batch.BackoffCapAnnotation])
		}
	}
	_, err := io.WriteString(s.streams.Out, result.Text())
	return err
}

func amounts(list string) (requests.Resources, error) {
	if list == "" {
		return nil, nil
	}
	all := corev1.ResourceList{}
	for _, part := range strings.Split(list, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		q, err := quantity.Parse(value)
		if !ok || name == "" || err != nil || q.Sign() < 0 {
			return nil, fmt.Errorf("%q is not an amount such as cpu=4 or memory=8Gi", part)
		}
		all[corev1.ResourceName(name)] = q
	}
	return requests.Amounts(all), nil
}

// recorded reads a Job and its pods from the server.
func (s *simulate) recorded(ctx context.Context) (*batchv1.Job, []*corev1.Pod, error) {
	objects, err := about.Named(s.f, []string{"jobs"}, []string{s.from})
	if err != nil {
		return nil, nil, err
	}
	client, err := s.f.KubernetesClientSet()
	if err != nil {
		return nil, nil, err
	}
	of := objects[0]
	j, err := client.BatchV1().Jobs(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	list, err := client.CoreV1().Pods(of.Namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(j.Spec.Selector)})
	if err != nil {
		return nil, nil, err
	}
	var pods []*corev1.Pod
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], j) {
			pods = append(pods, &list.Items[i])
		}
	}
	if len(pods) == 0 {
		return nil, nil, fmt.Errorf("jobs/%s has no pods any more, so there is nothing to take from it", of.Name)
	}
	return j, pods, nil
}

// cronRun is a Job that a CronJob is to start.
type cronRun struct {
	Scheduled time.Time `json:"scheduled"`
	Starts    time.Time `json:"starts"`
}

// manyRuns is how many runs of a CronJob are shown.
const manyRuns = 5

// nextRuns returns the next times of a CronJob as the daemon computes them.
func nextRuns(cj *batchv1.CronJob, now time.Time) (runs []cronRun, err error) {
	cj = cj.DeepCopy()
	if cj.Namespace == "" {
		cj.Namespace = metav1.NamespaceDefault
	}
	if cj.CreationTimestamp.IsZero() {
		cj.CreationTimestamp = metav1.NewTime(now)
	}
	for len(runs) < manyRuns {
		times, err := cron.TimesOf(cj, now, now)
		if err != nil {
			return nil, fmt.Errorf("the CronJob is invalid: %w", err)
		}
		if times.Next.IsZero() {
			break
		}
		at := times.Next
		if zone := cj.Spec.TimeZone; zone != nil {
			if in, err := time.LoadLocation(*zone); err == nil {
				at = at.In(in)
			}
		}
		runs = append(runs, cronRun{at, at.Add(times.Offset)})
		cj.Status.LastScheduleTime = &metav1.Time{Time: times.Next}
		now = times.Starts()
	}
	return runs, nil
}

func startsLater(by time.Duration) string {
	if by == 0 {
		return "at once"
	}
	return fmt.Sprintf("%v later (%s)", by, batch.JitterAnnotation)
}

// manifests is what a file says of what is simulated.
type manifests struct {
	jobs       []*batchv1.Job
	sets       []*jobsetv1.JobSet
	cronJob    *batchv1.CronJob // the last one, of which one of the Jobs is
	namespaces []*corev1.Namespace
	classes    []*schedulingv1.PriorityClass
}

// read reads the Jobs, JobSets and CronJobs of the file, of which there is at least one, and what they refer to.
func (s *simulate) read() (*manifests, error) {
	in := s.streams.In
	if s.file != "-" {
		f, err := os.Open(s.file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	m := &manifests{}
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(in)); ; {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = m.read(text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.file, err)
		}
	}
	if len(m.jobs)+len(m.sets) == 0 {
		return nil, fmt.Errorf("%s has neither a Job nor a CronJob of batch/v1, nor a JobSet of %s", s.file, jobsetv1.GroupVersion)
	}
	return m, nil
}

// read reads a document: a Job, a JobSet, the Job that a CronJob would start, or what says something of Jobs. Other kinds do not matter.
func (m *manifests) read(text []byte) error {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(text, &kind); err != nil {
		return err
	}
	if !slices.Contains([]schema.GroupVersionKind{
		batchv1.SchemeGroupVersion.WithKind("Job"), batchv1.SchemeGroupVersion.WithKind("CronJob"),
		corev1.SchemeGroupVersion.WithKind("Namespace"), schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"),
		jobsetv1.GroupVersion.WithKind("JobSet"),
	}, kind.GroupVersionKind()) {
		return nil
	}
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, jobsetv1.AddToScheme} {
		if err := add(kinds); err != nil {
			return err
		}
	}
	strict := kjson.NewSerializerWithOptions(kjson.DefaultMetaFactory, kinds, kinds,
		kjson.SerializerOptions{Yaml: true, Strict: true})
	obj, _, err := strict.Decode(text, nil, nil)
	if err != nil {
		return err
	}
	switch o := obj.(type) {
	case *corev1.Namespace:
		m.namespaces = append(m.namespaces, o)
		path := field.NewPath("metadata", "annotations")
		errs := append(core.ValidateConcurrency(o.Annotations, path, true), core.ValidatePreemptBy(o.Annotations, path)...)
		if _, err := core.Share(o.Annotations); err != nil {
			errs = append(errs, field.Invalid(path.Key(core.ShareAnnotation), o.Annotations[core.ShareAnnotation], err.Error()))
		}
		if len(errs) > 0 {
			return fmt.Errorf("namespace %s is invalid: %w", o.Name, errs.ToAggregate())
		}
	case *schedulingv1.PriorityClass:
		m.classes = append(m.classes, o)
	case *batchv1.Job:
		m.jobs = append(m.jobs, o)
	case *jobsetv1.JobSet:
		m.sets = append(m.sets, o)
	case *batchv1.CronJob:
		template := &o.Spec.JobTemplate
		m.cronJob = o
		m.jobs = append(m.jobs, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			Name: o.Name, Namespace: o.Namespace, Labels: template.Labels, Annotations: template.Annotations,
		}, Spec: template.Spec})
	}
	return nil
}

// prepareAll makes the Jobs and JobSets such as the server would store them, each at the time at which it is created.
func (s *simulate) prepareAll(ctx context.Context, c *simulation.Config) error {
	all := slices.Clone(c.More)
	if c.Job != nil {
		all = append([]*batchv1.Job{c.Job}, all...)
	}
	at, err := s.times(all, c.JobSets)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for i, j := range all {
		j, err := prepared(j, c.Begin.Add(at[j.Name]))
		if err != nil {
			return err
		}
		if seen[j.Name] {
			return fmt.Errorf("there are two Jobs %s: each needs a name of its own", j.Name)
		}
		seen[j.Name] = true
		if i == 0 {
			c.Job = j
			continue
		}
		j.UID = types.UID(fmt.Sprintf("simulated-%d", i))
		c.More[i-1] = j
	}
	seen = map[string]bool{}
	for i, js := range c.JobSets {
		if err := prepareSet(ctx, js, c.Begin.Add(at[js.Name])); err != nil {
			return err
		}
		if seen[js.Name] {
			return fmt.Errorf("there are two JobSets %s: each needs a name of its own", js.Name)
		}
		seen[js.Name] = true
		js.UID = types.UID(fmt.Sprintf("simulated-set-%d", i))
	}
	return nil
}

// times returns when Jobs and JobSets are created, by their names.
func (s *simulate) times(jobs []*batchv1.Job, sets []*jobsetv1.JobSet) (map[string]time.Duration, error) {
	var names []string
	for _, j := range jobs {
		names = append(names, j.Name)
	}
	for _, js := range sets {
		names = append(names, js.Name)
	}
	at := map[string]time.Duration{}
	for _, text := range s.created {
		name, value, _ := strings.Cut(text, "=")
		after, err := time.ParseDuration(value)
		switch {
		case err != nil || after < 0:
			return nil, fmt.Errorf("--create %s: must be the name of a Job or JobSet and a duration, such as urgent=1m", text)
		case !slices.Contains(names, name):
			return nil, fmt.Errorf("--create %s: there is no Job %s", text, name)
		case name == names[0] && after > 0:
			return nil, fmt.Errorf("--create %s: the first Job begins the simulation", text)
		}
		at[name] = after
	}
	return at, nil
}

// prepareSet makes a JobSet such as the server would store it when it is created.
func prepareSet(ctx context.Context, js *jobsetv1.JobSet, now time.Time) error {
	name := cmp.Or(js.Name, strings.TrimSuffix(js.GenerateName, "-"), "jobset")
	js.ObjectMeta = metav1.ObjectMeta{
		Name: name, Namespace: cmp.Or(js.Namespace, metav1.NamespaceDefault), Labels: js.Labels, Annotations: js.Annotations,
		CreationTimestamp: metav1.NewTime(now),
	}
	k := jobset.Kind()
	k.Default(js)
	k.Strategy.PrepareForCreate(ctx, js)
	if errs := k.Strategy.Validate(ctx, js); len(errs) > 0 {
		return fmt.Errorf("the JobSet is invalid: %w", errs.ToAggregate())
	}
	return nil
}

// prepared returns a Job as the server would store it when it is created.
func prepared(j *batchv1.Job, now time.Time) (*batchv1.Job, error) {
	if uid := string(j.UID); uid != "" && j.Spec.Selector != nil && (j.Spec.ManualSelector == nil || !*j.Spec.ManualSelector) {
		// It was read from a server, which has generated these.
		j.Spec.Selector = nil
		for _, name := range []string{batchv1.ControllerUidLabel, batchv1.JobNameLabel, "controller-uid", "job-name"} {
			delete(j.Spec.Template.Labels, name)
		}
	}
	if j.Name == "" {
		j.Name = strings.TrimSuffix(j.GenerateName, "-")
	}
	if j.Name == "" {
		j.Name = "job"
	}
	if j.Namespace == "" {
		j.Namespace = metav1.NamespaceDefault
	}
	j.ObjectMeta = metav1.ObjectMeta{
		Name: j.Name, Namespace: j.Namespace, Labels: j.Labels, Annotations: j.Annotations, UID: "simulated",
		CreationTimestamp: metav1.NewTime(now),
	}
	batch.SetJobDefaults(j)
	batch.PrepareJob(j)
	if errs := batch.ValidateJob(j); len(errs) > 0 {
		return nil, fmt.Errorf("the Job is invalid: %w", errs.ToAggregate())
	}
	return j, nil
}
