package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/jobd/jobd/cmd/internal/progress"
	"github.com/jobd/jobd/cmd/internal/submit"
	"github.com/jobd/jobd/daemon"
	"github.com/jobd/jobd/daemon/config"
	"github.com/jobd/jobd/daemon/ephemeral"
)

// run is one `jobd run`.
type run struct {
	submit.Options
	archives []string
	root     string
	settings config.Config
	logLevel string

	in          io.Reader
	out, errOut io.Writer
}

func newRunCommand() *cobra.Command {
	r := &run{settings: config.Default()}
	// What is rotated away before it was shown is lost for good, and no log outlives the run.
	r.settings.ContainerLogMaxFiles = 50
	file, sweep := "", false
	cmd := &cobra.Command{
		Use:   "run (-f FILE | --image IMAGE [-- COMMAND ARG...])",
		Short: "Run one Job to its end, without a daemon",
		Long: `Run one Job to its end: show its logs, exit with its exit code. No daemon is needed, and none that serves on this machine
is disturbed: the run has directories, control groups and a network of its own.

When the command ends, however it does, everything is removed: containers, network, database, and without --root the
images too. If it is killed, a small process that it has started clears up after it; what even that could not, the next
run does.

The exit code is that of the container that failed, in the first pod that counted as a failure; 0 if the Job is complete;
1 if it has failed and no container says with which code; 124 if its deadline has passed; 125 if it could not be run: it was
refused, its image cannot be had, jobd could not start, or its logs could not be written; 130 or 143 after Ctrl-C or SIGTERM.`,
		Example: `  # Run a command in an image that docker has; its output and exit code are those of the container
  docker save busybox:1.36 | jobd run --image-archive - --image busybox:1.36 -- sh -c 'echo hello; exit 3'

  # Run the Job of a file, and keep its images for the next time
  jobd run -f job.yaml --root /var/cache/jobd-run

  # In CI: results as files, a folded group for each pod
  jobd run -f tests.yaml --junit results.xml --summary-json summary.json`,
		DisableFlagsInUseLine: true,
	}
	submit.Habits(cmd)
	flags := cmd.Flags()
	r.AddSubmitFlags(flags)
	r.AddFollowFlags(flags, submit.OnStartErrorFail)
	r.AddReportFlags(flags)
	flags.StringArrayVar(&r.archives, "image-archive", nil,
		"Import this archive of images first, as docker save writes it; - is the standard input")
	flags.StringVar(&r.root, "root", "", "Directory that keeps images for the next run (none: they are removed)")
	flags.StringVarP(&r.Namespace, "namespace", "n", metav1.NamespaceDefault, "Namespace of the Job, which is created for it")
	flags.StringVar(&r.settings.OCIRuntime, "oci-runtime", "", "What starts the containers: crun, runc or a path (the first of these that works)")
	flags.StringVar(&r.settings.Network, "network", "", "Network of pods: bridge, host or none (a bridge where that is possible, else none)")
	flags.StringVar(&r.settings.Shim, "shim", "", "Path of jobd-shim (beside jobd, or in PATH)")
	flags.StringVar(&file, "config", "", "YAML file with further settings, as for jobd serve")
	flags.StringVar(&r.logLevel, "log-level", "error", "Which of jobd's own log messages are shown: debug, info, warn or error")
	flags.BoolVar(&sweep, "clear", false, "Only remove what runs that were killed have left; run nothing")

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.in, r.out, r.errOut = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
		if dash := cmd.ArgsLenAtDash(); dash > 0 || dash < 0 && len(args) > 0 {
			return submit.Unexpected("jobd run", r.Image, args)
		}
		if sweep {
			return ephemeral.Sweep(cmd.Context(), ephemeral.DefaultDirs(), slog.New(slog.DiscardHandler))
		}
		if file != "" {
			if err := readFile(file, &r.settings, flags, "oci-runtime", "network", "shim"); err != nil {
				return err
			}
		}
		r.settings.Manifests = config.ManifestsNone // this is one Job
		r.Here = true
		m, err := r.Manifests(flags, args, r.in)
		if err != nil {
			return err
		}
		if m.Set {
			return errors.New("jobd run runs a single Job, and this is a JobSet: jobctl submit -f FILE runs it on a daemon")
		}
		if m.AutoMemory {
			return errors.New("--memory auto: jobd run keeps no history: give an amount, such as --memory 4Gi")
		}
		return exitError(r.run(m))
	}
	return cmd
}

// exitError is the exit code of a command that has said everything else.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// run runs the Job and returns the exit code.
func (r *run) run(m *submit.Manifests) int {
	signals, stop := submit.Signals() // from here on they end the Job, and not this process
	defer stop()
	display, err := r.Display(r.in, r.out, r.errOut)
	if err != nil {
		fmt.Fprintln(r.errOut, "error:", err)
		return submit.ExitFailed
	}
	ended, err := r.inPlace(m, display, signals)
	return r.Finish(display, r.errOut, ended, err)
}

// inPlace runs the Job in a place of its own, which is gone afterwards.
func (r *run) inPlace(m *submit.Manifests, display progress.Display, signals <-chan os.Signal) (ended submit.Ended, err error) {
	logger, err := newLogger(notices{display}, r.logLevel)
	if err != nil {
		return ended, err
	}
	logger = slog.New(own{logger.Handler()})
	r.settings.Logger, r.settings.Version = logger, version
	// The process that is left behind clears up.
	r.settings.Exit = func(int) { os.Exit(submit.ExitFailed) }
	if os.Geteuid() != 0 {
		return ended, errors.New("jobd run must run as root, since it starts containers")
	}
	if err := ephemeral.Sweep(context.Background(), ephemeral.DefaultDirs(), logger); err != nil {
		logger.Warn("cannot clear what an earlier run has left", "error", err)
	}
	shim, err := r.settings.ShimPath()
	if err != nil {
		return ended, err
	}
	self, err := os.Executable()
	if err != nil {
		return ended, err
	}
	place, err := ephemeral.Open(ephemeral.DefaultDirs(), r.root, shim, []string{self, "run", "--clear"})
	if err != nil {
		return ended, err
	}
	defer func() { err = errors.Join(err, place.Close(context.Background(), logger)) }()

	ctx, cancel := context.WithCancel(context.Background())
	ready, stopped := make(chan daemon.Serving, 1), make(chan error, 1)
	go func() {
		stopped <- daemon.Run(ctx, place.Settings(r.settings), func(s daemon.Serving) { ready <- s })
	}()
	defer func() { // before the place is cleared
		cancel()
		if stopped != nil {
			err = errors.Join(err, <-stopped)
		}
	}()
	select {
	case serving := <-ready:
		following, broken := context.WithCancelCause(context.Background())
		end := make(chan error, 1)
		go func() {
			err := <-stopped
			broken(fmt.Errorf("jobd has ended early: %w", err))
			end <- err
		}()
		ended, err = r.follow(following, serving.Socket, m, display, signals)
		if cause := context.Cause(following); cause != nil {
			err = cause
		}
		stopped = end
		return ended, err
	case err := <-stopped:
		stopped = nil
		return ended, fmt.Errorf("jobd cannot start: %w", err)
	case s := <-signals:
		return submit.InterruptedBy(s), nil
	}
}

// follow imports the images, creates the Job and follows it.
func (r *run) follow(
	ctx context.Context, socket string, m *submit.Manifests, display progress.Display, signals <-chan os.Signal,
) (ended submit.Ended, err error) {
	client, err := submit.NewClient(&rest.Config{
		Host: "http://jobd",
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		QPS:            -1,
		WarningHandler: rest.NewWarningWriter(notices{display}, rest.WarningWriterOptions{Deduplicate: true}),
	})
	if err != nil {
		return ended, err
	}
	// An interrupt before there is a Job ends everything.
	var job *batchv1.Job
	preparing, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		job, err = r.prepare(preparing, client, m, display)
	}()
	select {
	case s := <-signals:
		cancel()
		<-done
		return submit.InterruptedBy(s), nil
	case <-done:
		if err != nil {
			return ended, err
		}
	}
	f := submit.Follower{
		Client: client, Display: display, Signals: signals, OnInterrupt: submit.OnInterruptDelete, OnStartError: r.OnStartError, Own: true,
	}
	return f.Follow(ctx, job, true)
}

// prepare imports the images, and creates the Job and what it needs.
func (r *run) prepare(
	ctx context.Context, client *submit.Client, m *submit.Manifests, display progress.Display,
) (*batchv1.Job, error) {
	var model progress.Model
	for _, file := range r.archives {
		show := func(state string, sent, total int64) {
			for _, e := range model.SetImages(time.Now(), []progress.Transfer{{Name: file, State: state, Bytes: sent, Total: total}}) {
				display.Event(e)
			}
			display.Update(&model)
		}
		list, err := submit.ImportArchive(ctx, client.Kubernetes, file, r.in, func(sent, total int64) { show("importing", sent, total) })
		if err != nil {
			return nil, err
		}
		for _, i := range list {
			display.Event(progress.Event{Time: time.Now(), Type: "image", Name: i.Name, State: "imported", Bytes: i.Size})
		}
	}
	if err := m.CreateNamespaces(ctx, client, r.Namespace); err != nil {
		return nil, err
	}
	return m.Create(ctx, client, r.Namespace, false)
}

// own leaves out what the Kubernetes libraries log: they complain of requests that end with the run.
type own struct{ slog.Handler }

func (o own) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		if a.Key == "component" && a.Value.String() == "kubernetes" {
			return slog.DiscardHandler
		}
	}
	return own{o.Handler.WithAttrs(attrs)}
}

func (o own) WithGroup(name string) slog.Handler { return own{o.Handler.WithGroup(name)} }

// notices is a writer whose lines are shown as notices.
type notices struct{ display progress.Display }

func (n notices) Write(line []byte) (int, error) {
	text := string(line)
	for len(text) > 0 && text[len(text)-1] == '\n' {
		text = text[:len(text)-1]
	}
	n.display.Event(progress.Event{Time: time.Now(), Type: "notice", Message: text})
	return len(line), nil
}
