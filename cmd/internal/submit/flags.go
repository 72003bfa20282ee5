package submit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/cmd/internal/progress"
	"github.com/jobd/jobd/cmd/internal/summary"
	"github.com/jobd/jobd/internal/yamltext"
)

// Options are what the command line says. The zero value is not usable: AddSubmitFlags sets the defaults.
type Options struct {
	Template
	Files     []string
	Name      string
	Namespace string
	DryRun    string
	Output    string
	Detach    bool
	Replace   bool
	// On is the context of another server that the Job is for, and Force says that it is submitted there whatever is missing.
	On    string
	Force bool
	After []string
	At    string
	// DetachKeys leave an interactive session.
	DetachKeys string
	// Params and Each are values for the indexes of the Job: NAME=VALUE,VALUE and files of CSV.
	Params, Each []string
	// IgnoreDirectives are options of a script's lines that are left out.
	IgnoreDirectives []string
	// Here says that the Job runs on this machine, so that what it mounts of the host can be looked at.
	Here bool
	FollowOptions
}

// FollowOptions are what the command line says about how a Job is followed.
type FollowOptions struct {
	Progress     string
	Prefix       bool
	OnInterrupt  string
	OnStartError string
	JUnit        string
	SummaryJSON  string
	Notify       bool // on the desktop

	tails *summary.Tails // nil unless JUnit needs them
}

// AddSubmitFlags adds the flags that describe a Job.
func (o *Options) AddSubmitFlags(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&o.Files, "filename", "f", nil, "File with the Job and what it needs (ConfigMaps, Secrets ...); - is the standard input")
	flags.StringVar(&o.Image, "image", "", "Image of the only container of a Job that no file describes; its command follows --")
	flags.BoolVar(&o.Host, "host", false, "Instead of --image: the command is one of this machine, with its files, as whoever runs this, in this directory "+
		"(in the home, if the machine is another one), with this PATH, locale and what else is needed to find programs")
	flags.BoolVar(&o.AsMe, "as-me", false, "With --image: run as whoever runs this, with their groups")
	flags.BoolVar(&o.InPlace, "here", false, "With --image: mount this directory at its own path, and make it the working directory")
	flags.StringVar(&o.Name, "name", "", "Name of the Job (that in the file, or one made from the image)")
	flags.Int32Var(&o.Completions, "completions", 0, "With --image: how many pods have to succeed (1)")
	flags.Int32Var(&o.Parallelism, "parallelism", 0, "With --image: how many pods run at a time (1; with --param and --each as many as there is room for)")
	flags.BoolVar(&o.Indexed, "indexed", false, "With --image: each pod has an index, in $JOB_COMPLETION_INDEX")
	flags.StringArrayVar(&o.Params, "param", nil,
		"With --image: an index for each of these values, NAME=VALUE,VALUE (quoted as in CSV); of several flags, for each combination. "+
			"The variable NAME has the value, and $(NAME) in the command too")
	flags.StringArrayVar(&o.Each, "each", nil,
		"With --image: an index for each row of a CSV file, whose first row names the variables; - is the standard input")
	flags.StringArrayVarP(&o.Env, "env", "e", nil, "With --image: an environment variable, NAME=VALUE, or NAME for its value here")
	flags.StringVar(&o.CPU, "cpu", "", "With --image: how many CPUs the container requests and may use, such as 2 or 500m")
	flags.StringVar(&o.Memory, "memory", "", "With --image: how much memory the container requests and may use, such as 4Gi, or auto for what its former runs used and some more")
	flags.Int64Var(&o.GPUs, "gpus", 0, "With --image: how many GPUs the container has (nvidia.com/gpu)")
	flags.StringArrayVar(&o.Volumes, "volume", nil, "With --image: mount a file or directory of the host, which must exist, HOST:PATH or HOST:PATH:ro")
	flags.StringVarP(&o.WorkDir, "workdir", "w", "", "With --image: working directory of the command (that of the image)")
	flags.Int32Var(&o.BackoffLimit, "backoff-limit", 0, "With --image: how many pods may fail before the Job does")
	flags.DurationVar(&o.Deadline, "deadline", 0,
		"With --image: how long the Job may run, in all, in whole seconds; its end is exit code 124")
	flags.DurationVar(&o.PodDeadline, "pod-deadline", 0,
		"With --image: how long each pod may run, from its start, in whole seconds; its end is exit code 124")
	flags.DurationVar(&o.TTL, "ttl", 0, "With --image: how long after its end the Job is removed, in whole seconds (never)")
	flags.StringVar(&o.Pull, "pull", "", "With --image: whether the image is pulled: always, missing or never (as in a manifest)")
	flags.StringArrayVarP(&o.Labels, "label", "l", nil, "With --image: a label of the Job, NAME=VALUE")
}

// AddInteractiveFlags adds the flags for a Job to talk to.
func (o *Options) AddInteractiveFlags(flags *pflag.FlagSet, detachKeys string) {
	flags.BoolVarP(&o.Stdin, "stdin", "i", false,
		"With --image: attach the standard input to the container when it runs, however long that takes; --deadline, from then on, is 8h if it is not given")
	flags.BoolVarP(&o.TTY, "tty", "t", false, "With -i: on a terminal. The Job ends with it, and with Ctrl-C while it waits")
	flags.StringVar(&o.DetachKeys, "detach-keys", detachKeys, "With -it: the keys that leave the Job running; jobctl attach jobs/NAME joins it again")
}

// AddFollowFlags adds the flags that say how a Job is followed. onStartError is the default of that flag.
func (o *FollowOptions) AddFollowFlags(flags *pflag.FlagSet, onStartError string) {
	flags.StringVar(&o.Progress, "progress", progress.Auto, "How progress is shown: auto (tty on a terminal, else plain), plain, tty, quiet or json")
	flags.BoolVar(&o.Prefix, "prefix", false, "Put before each line of the logs where it is from: the pod, container, index, and later attempts")
	flags.StringVar(&o.OnStartError, "on-start-error", onStartError,
		"What to do when the Job cannot start before somebody changes something, such as an image, a missing Secret or a request "+
			"that does not fit: wait, or fail with exit code 125; submit then deletes the Job that it has created")
}

// AddReportFlags adds the flags that name files for the end of the Job.
func (o *FollowOptions) AddReportFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.JUnit, "junit", "", "Write the result as JUnit's XML to this file: a test for each index or pod")
	flags.StringVar(&o.SummaryJSON, "summary-json", "", "Write a summary of the Job and its pods to this file")
}

// AddInterruptFlag adds the flag that says what an interrupt does.
func (o *FollowOptions) AddInterruptFlag(flags *pflag.FlagSet) {
	flags.StringVar(&o.OnInterrupt, "on-interrupt", OnInterruptAsk,
		"What Ctrl-C or SIGTERM does to the Job: detach, delete, or ask (on a terminal, else detach)")
}

// Check returns an error for values that are not known.
func (o *FollowOptions) Check() error {
	if err := progress.CheckMode(o.Progress); err != nil {
		return err
	}
	if !slices.Contains([]string{"", OnInterruptAsk, OnInterruptDetach, OnInterruptDelete}, o.OnInterrupt) {
		return fmt.Errorf("--on-interrupt: %q is not known: one of ask, detach, delete", o.OnInterrupt)
	}
	if !slices.Contains([]string{OnStartErrorWait, OnStartErrorFail}, o.OnStartError) {
		return fmt.Errorf("--on-start-error: %q is not known: one of wait, fail", o.OnStartError)
	}
	return nil
}

// templateFlags are those that say nothing beside a file.
var templateFlags = []string{
	"completions", "parallelism", "indexed", "env", "cpu", "memory", "volume", "workdir", "backoff-limit", "deadline", "pod-deadline", "ttl",
	"pull", "label", "gpus", "param", "each", "stdin", "tty", "host", "as-me", "here",
}

// Manifests reads what the command line names: files, or flags and a command.
func (o *Options) Manifests(flags *pflag.FlagSet, command []string, stdin io.Reader) (*Manifests, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	var m *Manifests
	switch {
	case len(o.Files) > 0 && o.Image != "":
		return nil, errors.New("-f and --image were given: it is one or the other")
	case len(o.Files) > 0:
		if len(command) > 0 {
			return nil, fmt.Errorf("a command was given beside -f: %q", strings.Join(command, " "))
		}
		for _, name := range templateFlags {
			if f := flags.Lookup(name); f != nil && f.Changed {
				return nil, fmt.Errorf("--%s is for --image: with -f, the file says it", name)
			}
		}
		var err error
		if m, err = readFiles(o.Files, stdin); err != nil {
			return nil, err
		}
		if f := flags.Lookup("namespace"); f != nil && f.Changed {
			if err := m.checkNamespace(f.Value.String()); err != nil {
				return nil, err
			}
		}
	case o.Image != "" || o.Host:
		wd, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		o.Command = command
		j, err := o.Template.Job(os.LookupEnv, wd, flags.Changed)
		if err == nil && o.Here {
			err = hostPathsExist(&j.Spec.Template.Spec)
		}
		if err != nil {
			return nil, err
		}
		values, err := o.sweep(j, flags.Changed, stdin)
		if err != nil {
			return nil, err
		}
		if m, err = manifestsOf(j); err != nil {
			return nil, err
		}
		m.Values = values
	default:
		return nil, errors.New("nothing to run: name a file with -f, an image with --image, or a command of this machine with --host")
	}
	return m, o.finish(m)
}

// finish adds what the flags say of any Job, wherever it comes from.
func (o *Options) finish(m *Manifests) error {
	m.Replace, m.AutoMemory = o.Replace, o.Memory == autoMemory
	if m.Set && (o.At != "" || m.AutoMemory || o.JUnit != "" || o.SummaryJSON != "" || o.Notify) {
		return errors.New("--at, --memory auto, --junit, --summary-json and --notify are for Jobs, and this is a JobSet")
	}
	if len(o.After) > 0 {
		if err := m.setAfter(o.After); err != nil {
			return err
		}
	}
	if o.At != "" {
		if err := m.setAt(o.At, time.Now()); err != nil {
			return err
		}
	}
	if o.Name != "" {
		m.Job.SetName(o.Name)
		m.Job.SetGenerateName("")
	}
	return nil
}

// Print writes the Job instead of running it, as --dry-run and -o ask for.
func (o *Options) Print(out io.Writer, m *Manifests, created runtime.Object) error {
	var object any = m.Job.Object
	if m.Values != nil && o.DryRun == "client" && o.Output != "" && o.Output != "name" {
		object = map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{m.Values, m.Job.Object}}
	}
	name, kind := nameOf(m.Job), batchv1.SchemeGroupVersion.WithKind("Job")
	if m.Set {
		kind = jobsetv1.GroupVersion.WithKind("JobSet")
	}
	if created != nil {
		created.GetObjectKind().SetGroupVersionKind(kind)
		if of, err := meta.Accessor(created); err == nil {
			name = of.GetName()
			of.SetManagedFields(nil)
		}
		object = created
	}
	switch o.Output {
	case "", "name":
		suffix := ""
		if o.Output == "" && o.DryRun != "none" {
			suffix = " created (" + o.DryRun + " dry run)"
		}
		_, err := fmt.Fprintf(out, "%s.%s/%s%s\n", strings.ToLower(kind.Kind), kind.Group, name, suffix)
		return err
	case "yaml", "json":
		raw, err := yamltext.Marshal(object)
		if err == nil && o.Output == "json" {
			if raw, err = yaml.YAMLToJSON(raw); err == nil {
				raw = append(raw, '\n')
			}
		}
		if err != nil {
			return err
		}
		_, err = out.Write(raw)
		return err
	}
	return fmt.Errorf("--output: %q is not known: one of yaml, json, name", o.Output)
}

// Signals returns a channel of the signals that interrupt a command, and a function that ends it.
func Signals() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 4)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

// Display returns the display that the options ask for.
func (o *FollowOptions) Display(in io.Reader, out, errOut io.Writer) (progress.Display, error) {
	d, err := o.display(in, out, errOut)
	if err != nil || o.JUnit == "" {
		return d, err
	}
	o.tails = summary.NewTails()
	return kept{d, o.tails}, nil
}

func (o *FollowOptions) display(in io.Reader, out, errOut io.Writer) (progress.Display, error) {
	screen, isTerminal := progress.IsTerminal(errOut)
	switch o.Progress {
	case progress.JSON:
		return progress.NewJSON(out), nil
	case progress.Quiet:
		return progress.NewQuiet(in, out, errOut, o.Prefix), nil
	case progress.TTY:
		if !isTerminal {
			return nil, errors.New("--progress=tty needs a terminal as the standard error")
		}
		return progress.NewTTY(in, out, screen, o.Prefix), nil
	case progress.Auto:
		if term := os.Getenv("TERM"); isTerminal && term != "" && term != "dumb" && os.Getenv("CI") == "" {
			return progress.NewTTY(in, out, screen, o.Prefix), nil
		}
	}
	if ci := progress.DetectCI(os.Getenv); ci != progress.NoCI && !o.Prefix {
		return progress.NewGroups(ci, in, out, errOut), nil
	}
	return progress.NewPlain(in, out, errOut, o.Prefix), nil
}

// kept is a Display that keeps the last lines of each pod.
type kept struct {
	progress.Display
	tails *summary.Tails
}

func (k kept) Log(c progress.Chunk) {
	k.tails.Add(c)
	k.Display.Log(c)
}

// Finish says how the command ended, writes the files that are asked for, and returns its exit code.
func (o *FollowOptions) Finish(d progress.Display, errOut io.Writer, e Ended, err error) int {
	now := time.Now()
	r := summary.Report{Job: e.Job, Interrupted: e.Interrupted, Logs: o.tails}
	if e.Model != nil {
		r.Pods, r.Values = e.Model.Pods(), e.Model.Values()
	}
	switch {
	case err != nil:
		d.Event(progress.Event{Time: now, Type: "notice", Message: "error: " + err.Error()})
		e.Code = ExitCannot
		r.Error = err.Error()
	case !e.Interrupted:
		counts := progress.CountsOf(e.Job)
		d.Event(progress.Event{
			Time: now, Type: "end", Namespace: e.Job.Namespace, Name: e.Job.Name, ExitCode: &e.Code,
			Reason: e.Reason, Message: e.sentence(e.Job), Counts: &counts, Failures: r.Failures(), Next: e.Next,
		})
	}
	// A pipe that nobody reads any more is no error: whoever reads it has seen enough.
	if err := d.Close(); err != nil && !errors.Is(err, syscall.EPIPE) {
		fmt.Fprintln(errOut, "error: the logs could not be written:", err)
		if e.Code == 0 {
			e.Code = ExitCannot
			r.Error = err.Error()
		}
	}
	if err := o.tellDesktop(e, err); err != nil {
		fmt.Fprintln(errOut, "warning:", err)
	}
	code := int(e.Code)
	r.ExitCode = e.Code
	for _, file := range []struct {
		path  string
		write func(time.Time) ([]byte, error)
	}{{o.JUnit, r.JUnit}, {o.SummaryJSON, r.JSON}} {
		if file.path == "" {
			continue
		}
		raw, err := file.write(now)
		if err == nil {
			err = os.WriteFile(file.path, raw, 0o644)
		}
		if err != nil {
			fmt.Fprintln(errOut, "error:", err)
			code = max(code, ExitFailed)
		}
	}
	return code
}
