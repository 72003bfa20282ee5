// Package watch is `jobctl watch`: it asks the server again and again for Jobs and their pictures, shows them in a terminal and does what keys
// are for, or prints them where there is no terminal. The lines on the screen are made by cmd/internal/terminal, which knows no server.
package watch

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"

	"github.com/jobd/jobd/cmd/internal/about"
	"github.com/jobd/jobd/cmd/internal/progress"
	"github.com/jobd/jobd/cmd/internal/terminal"
)

const (
	// frame is between two drawings.
	frame = 100 * time.Millisecond
	// noteShown is how long what a key has done is shown.
	noteShown = 3 * time.Second
)

// Suspend suspends a Job that was named, or lets it go on, and writes to the streams what it has done.
type Suspend func(
	ctx context.Context, client kubernetes.Interface, streams genericiooptions.IOStreams, obj runtime.Object, suspend, named bool,
) error

// NewCommand makes the command that shows Jobs in a terminal.
func NewCommand(f cmdutil.Factory, streams genericiooptions.IOStreams, suspend Suspend) *cobra.Command {
	var everywhere bool
	cmd := &cobra.Command{
		Use:                   "watch [jobs/NAME | jobsets/NAME] [-A]",
		DisableFlagsInUseLine: true,
		Short:                 "Watch Jobs in the terminal: all of them, or the picture of one or of a JobSet",
		Long: `Watch Jobs in the terminal: a list of all, or a picture of one with a cell for each index (or each pod of a Job without indexes) and its failures grouped by exit code and last line. Keys show logs and descriptions, suspend, resume and delete; the last line of the screen lists them. A bare name means a Job.

The picture of a JobSet has a line for each of its groups: a cell for each Job, and for which groups it waits. Of many groups those are shown that have failed or go on, and their neighbours.

With NO_COLOR, states are letters. Where the output is not a terminal, or one that cannot move its cursor (TERM=dumb), the picture is printed each time it changes, until the Job or JobSet ends.`,
		Example: `  # All Jobs of the namespace
  jobctl watch

  # One Job
  jobctl watch jobs/train

  # The groups of a JobSet
  jobctl watch jobsets/train`,
		ValidArgsFunction: completion.SpecifiedResourceTypeAndNameCompletionFunc(f, about.Drawn),
		Run: func(cmd *cobra.Command, args []string) {
			cmdutil.CheckErr(watchJobs(cmd.Context(), f, streams, suspend, args, everywhere))
		},
	}
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "Include all namespaces")
	return cmd
}

func watchJobs(
	ctx context.Context, f cmdutil.Factory, streams genericiooptions.IOStreams, suspend Suspend, args []string, everywhere bool,
) error {
	w := &watcher{f: f, setSuspended: suspend, answers: make(chan answer), keys: make(chan string), wake: make(chan struct{}, 1)}
	var err error
	if w.namespace, _, err = f.ToRawKubeConfigLoader().Namespace(); err != nil {
		return err
	}
	if everywhere {
		w.namespace, w.other = "", w.namespace
	}
	if len(args) > 0 && !(len(args) == 1 && slices.Contains([]string{"jobs", "job"}, args[0])) {
		objects, err := about.Named(f, about.Drawn, args)
		if err != nil {
			return err
		}
		if len(objects) != 1 || everywhere {
			return errors.New("name one Job or JobSet, or none to look at all Jobs")
		}
		w.job, w.only = &objects[0], true
	}
	if w.client, err = f.KubernetesClientSet(); err != nil {
		return err
	}
	screen, tty := progress.IsTerminal(streams.Out)
	in, keys := progress.IsTerminal(streams.In)
	w.style.Color = os.Getenv("NO_COLOR") == ""
	if !tty || !keys || os.Getenv("TERM") == "dumb" || os.Getenv("TERM") == "" {
		if w.job == nil {
			return errors.New("this is no terminal that can be drawn on: name a Job, whose picture is printed then, or use jobctl get jobs -w")
		}
		return w.print(ctx, streams)
	}
	return w.run(ctx, in, screen)
}

// watcher is what is on the screen. All but ask serves one goroutine.
type watcher struct {
	f            cmdutil.Factory
	client       kubernetes.Interface
	setSuspended Suspend
	namespace    string // empty for all
	style        terminal.Style

	job     *about.Object // whose picture is shown, a Job or a JobSet; nil for the overview
	only    bool          // there is no overview behind it
	set     *about.Object // the JobSet that is behind it all; nil for none
	labels  string        // a selector of the Jobs of an overview
	view    terminal.View
	setView terminal.SetView
	failure int // that is chosen
	all     []batchv1.Job
	list    terminal.Overview // of those of them that are looked for
	other   string            // the namespace that is shown instead by a key; empty for all

	title, text string // over all else, if there is a title
	from        int
	note        string // in the last line
	noted       time.Time
	confirm     func() string

	answers chan answer
	keys    chan string
	wake    chan struct{}

	mu     sync.Mutex
	asking answer // of what: a picture, or an overview within a namespace
	cursor string
	failed string        // the pod of the chosen failure
	listed []batchv1.Job // the first of those that wait or have failed, of an overview
}

// update takes in a picture.
func (w *watcher) update(a answer) error {
	if a.set != nil {
		w.takeSet(a.set)
		return nil
	}
	return w.view.Update(a.picture)
}

// run shows the screen until somebody leaves it.
func (w *watcher) run(ctx context.Context, in, screen *os.File) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return err
	}
	progress.Drawable(screen)
	_, _ = io.WriteString(screen, "\x1b[?1049h\x1b[?25l")
	defer func() {
		_, _ = io.WriteString(screen, "\x1b[?25h\x1b[?1049l")
		_ = term.Restore(int(in.Fd()), before)
	}()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	width, height := progress.Size(screen)
	w.aim(w.job)
	go w.ask(ctx)
	go w.askWhy(ctx)
	go w.read(ctx, in)
	ticker := time.NewTicker(frame)
	defer ticker.Stop()
	changed, drawn := true, ""
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-signals:
			return nil
		case a := <-w.answers:
			if err := w.take(a); err != nil {
				return err
			}
			changed = true
		case key, ok := <-w.keys:
			if !ok || !w.press(ctx, key) {
				return nil
			}
			changed, w.noted = true, time.Now()
		case <-ticker.C:
			if w, h := progress.Size(screen); w != width || h != height {
				width, height, changed, drawn = w, h, true, ""
			}
			if !changed {
				continue
			}
			changed = false
			if next := w.draw(screen); next != drawn {
				drawn = next
				_, _ = io.WriteString(screen, next)
			}
		}
	}
}

// draw returns what puts the whole screen right.
func (w *watcher) draw(screen *os.File) string {
	w.style.Width, w.style.Height = progress.Size(screen)
	var lines []string
	switch {
	case w.title != "":
		lines = terminal.Text(w.title, w.text, w.from, w.style)
	case w.job != nil && w.job.Resource == "jobsets":
		lines = terminal.DrawSet(&w.setView, w.style)
	case w.job != nil:
		lines = terminal.Draw(&w.view, w.failure, w.style)
	default:
		lines = w.list.Draw(time.Now(), w.style)
	}
	if w.note != "" {
		lines[len(lines)-1] = terminal.Note(w.note, w.style)
	}
	var b strings.Builder
	b.WriteString("\x1b[?2026h\x1b[H")
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line + "\x1b[K")
	}
	b.WriteString("\x1b[?2026l")
	return b.String()
}

// aim chooses what is asked for.
func (w *watcher) aim(job *about.Object) {
	w.mu.Lock()
	w.asking, w.cursor, w.failed = answer{of: job, within: w.namespace, labels: w.labels}, "", ""
	w.mu.Unlock()
	w.job, w.view, w.failure = job, terminal.View{Back: !w.only || w.set != nil}, 0
	w.setView = terminal.SetView{Selected: -1}
	w.hurry()
}

// take takes in an answer. An error at the beginning ends it all; a later one is shown, and it is tried again.
func (w *watcher) take(a answer) error {
	if (a.of == nil) != (w.job == nil) || a.of != nil && *a.of != *w.job {
		return nil // something else is looked at by now
	}
	if a.why != nil {
		w.list.Why, w.view.Why, w.view.Reasons, w.view.LastOf, w.view.Last = a.why, a.why[""], a.reasons, a.lastOf, a.last
		w.setView.Why, w.setView.Reasons = a.why[""], a.reasons
		return nil
	}
	if a.err != nil {
		if w.only && w.set == nil && w.view.Job == nil && w.setView.Kind == "" || a.of == nil && w.all == nil {
			return a.err
		}
		w.note = a.err.Error()
		return nil
	}
	if w.confirm == nil && time.Since(w.noted) >= noteShown {
		w.note = ""
	}
	if a.set != nil {
		w.takeSet(a.set)
		return nil
	}
	if a.picture == nil {
		if a.within != w.namespace || a.labels != w.labels {
			return nil
		}
		w.all = a.jobs
		w.arrange()
		return nil
	}
	if a.picture.Delta && w.view.Cells == nil {
		return nil // what it is based on was dropped meanwhile
	}
	if err := w.view.Update(a.picture); err != nil {
		return err
	}
	w.mu.Lock()
	w.cursor = a.picture.Cursor
	w.mu.Unlock()
	w.choose()
	return nil
}
