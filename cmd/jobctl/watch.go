package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/describe"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/jobset"
	wire "github.com/jobd/jobd/api/picture"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/cmd/internal/progress"
	"github.com/jobd/jobd/cmd/internal/submit"
	"github.com/jobd/jobd/cmd/internal/terminal"
)

const (
	// watchFrame is between two drawings, and watchPoll between two questions; watchPrint where the pictures are printed.
	watchFrame = 100 * time.Millisecond
	watchPoll  = 500 * time.Millisecond
	watchPrint = 2 * time.Second
	// watchNote is how long what a key has done is shown.
	watchNote = 3 * time.Second
	// watchWhy is between two questions for reasons, and watchedReasons how many Jobs of an overview they are about.
	watchWhy       = time.Second
	watchWhyNot    = 10 * time.Second
	watchedReasons = 20
	// watchedJobs is how many Jobs an overview has at most, and watchedLines how much is shown of a log.
	watchedJobs  = 1000
	watchedLines = 1000
)

// drawn are the kinds that have a picture.
var drawn = []string{"jobs", "jobsets"}

// newWatchCommand makes the command that shows Jobs in a terminal.
func newWatchCommand(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
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
		ValidArgsFunction: completion.SpecifiedResourceTypeAndNameCompletionFunc(f, drawn),
		Run: func(cmd *cobra.Command, args []string) {
			cmdutil.CheckErr(watchJobs(contextOf(cmd), f, streams, args, everywhere))
		},
	}
	cmd.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "Include all namespaces")
	return cmd
}

func watchJobs(ctx context.Context, f cmdutil.Factory, streams genericiooptions.IOStreams, args []string, everywhere bool) error {
	w := &watcher{f: f, answers: make(chan answer), keys: make(chan string), wake: make(chan struct{}, 1)}
	var err error
	if w.namespace, _, err = f.ToRawKubeConfigLoader().Namespace(); err != nil {
		return err
	}
	if everywhere {
		w.namespace, w.other = "", w.namespace
	}
	if len(args) > 0 && !(len(args) == 1 && slices.Contains([]string{"jobs", "job"}, args[0])) {
		objects, err := named(f, drawn, args)
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
	f         cmdutil.Factory
	client    kubernetes.Interface
	namespace string // empty for all
	style     terminal.Style

	job     *object // whose picture is shown, a Job or a JobSet; nil for the overview
	only    bool    // there is no overview behind it
	set     *object // the JobSet that is behind it all; nil for none
	labels  string  // a selector of the Jobs of an overview
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

// answer is something that the server has said.
type answer struct {
	of      *object // nil for the overview
	within  string  // the namespace of an overview
	labels  string  // and a selector
	picture *wire.Picture
	set     *wire.SetPicture
	jobs    []batchv1.Job
	err     error
	// why is the answer to other questions: the reasons of the Job, or of the Jobs of an overview. reasons is that of the Job in full,
	// and last the end of the log of the pod lastOf.
	why                   map[types.UID]string
	reasons, lastOf, last string
}

// print prints the picture of a Job or a JobSet whenever it has changed, until it has ended. When the server is out of reach, since
// it is being restarted for example, it goes on as jobctl follow does.
func (w *watcher) print(ctx context.Context, streams genericiooptions.IOStreams) error {
	w.style, w.setView.Selected = terminal.Style{Width: 80, Height: 24}, -1
	before := ""
	var lost time.Time
	for {
		a := w.question(ctx, w.job, w.view.Cursor)
		switch err := a.err; {
		case err == nil:
			if !lost.IsZero() {
				fmt.Fprintln(streams.ErrOut, "the server answers again")
			}
			lost = time.Time{}
			if err := w.update(a); err != nil {
				return err
			}
		case ctx.Err() != nil:
			return ctx.Err()
		case before == "" || isAnswer(err):
			return err
		case lost.IsZero():
			lost = time.Now()
			fmt.Fprintf(streams.ErrOut, "the server does not answer, trying again: %v\n", err)
		case time.Since(lost) >= submit.Patience:
			return fmt.Errorf("the server has not answered for %v: %w", submit.Patience, err)
		}
		lines, now, ended := w.printed(ctx)
		if now != before {
			before = now
			if _, err := fmt.Fprintln(streams.Out, strings.TrimRight(strings.Join(lines[:len(lines)-1], "\n"), "\n")+"\n"); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(watchPrint):
		}
	}
}

// question asks the server for a picture.
func (w *watcher) question(ctx context.Context, of *object, cursor string) (a answer) {
	a.of = of
	if of.resource == "jobsets" {
		a.set, a.err = askSetPicture(ctx, w.client, of.namespace, of.name)
		return a
	}
	a.picture = &wire.Picture{}
	a.err = askPicture(ctx, w.client, of.namespace, of.name, wire.Options{Cursor: cursor}, a.picture)
	return a
}

// update takes in a picture.
func (w *watcher) update(a answer) error {
	if a.set != nil {
		w.takeSet(a.set)
		return nil
	}
	return w.view.Update(a.picture)
}

// printed returns what is printed, what tells whether it is new, and whether it is the last.
func (w *watcher) printed(ctx context.Context) (lines []string, version string, ended bool) {
	if v := &w.setView; w.job.resource == "jobsets" {
		if v.Why = ""; v.State == batch.StateWaiting || v.State == jobset.StateRestarting {
			v.Why, _ = w.reason(ctx, *w.job)
		}
		for _, g := range v.Groups {
			version += fmt.Sprintln(g.State, g.Counts)
		}
		return terminal.DrawSet(v, w.style), version + fmt.Sprint(v.State, v.Decided, v.Restarts, v.Former > 0, v.Why != ""), v.Ended > 0
	}
	w.view.Why = ""
	if w.view.Job.State == batch.StateWaiting {
		w.view.Why, _ = w.reason(ctx, *w.job)
	}
	return terminal.Draw(&w.view, -1, w.style), fmt.Sprint(w.view.Job.State, w.view.Job.Counts, w.view.Why != ""), w.view.Job.Ended > 0
}

// isAnswer reports whether an error is what the server has to say about a request, and not that it is out of reach, is just
// starting or has too much to do.
func isAnswer(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code < http.StatusInternalServerError && code != http.StatusTooManyRequests
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
	ticker := time.NewTicker(watchFrame)
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
	case w.job != nil && w.job.resource == "jobsets":
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
func (w *watcher) aim(job *object) {
	w.mu.Lock()
	w.asking, w.cursor, w.failed = answer{of: job, within: w.namespace, labels: w.labels}, "", ""
	w.mu.Unlock()
	w.job, w.view, w.failure = job, terminal.View{Back: !w.only || w.set != nil}, 0
	w.setView = terminal.SetView{Selected: -1}
	w.hurry()
}

// hurry lets the next question be asked at once.
func (w *watcher) hurry() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// ask asks the server again and again.
func (w *watcher) ask(ctx context.Context) {
	for ctx.Err() == nil {
		w.mu.Lock()
		a, cursor := w.asking, w.cursor
		w.mu.Unlock()
		if a.of != nil {
			a = w.question(ctx, a.of, cursor)
		} else {
			var list *batchv1.JobList
			if list, a.err = w.client.BatchV1().Jobs(a.within).List(ctx, metav1.ListOptions{Limit: watchedJobs, LabelSelector: a.labels}); a.err == nil {
				a.jobs = list.Items
			}
		}
		select {
		case w.answers <- a:
		case <-ctx.Done():
			return
		}
		select {
		case <-w.wake:
		case <-time.After(watchPoll):
		case <-ctx.Done():
			return
		}
	}
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
	if w.confirm == nil && time.Since(w.noted) >= watchNote {
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

// askWhy asks for the reasons of what is on the screen, for as long as the server is one that has any.
func (w *watcher) askWhy(ctx context.Context) {
	failed := map[string]string{} // of Jobs that have failed, which have the same reason for as long as they are as they are
	last := map[string]string{}   // the end of the log of the pod that was asked for last: it has failed, and writes no more
	pause := watchWhy
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		w.mu.Lock()
		a, jobs := answer{of: w.asking.of, why: map[types.UID]string{}, lastOf: w.failed}, w.listed
		w.mu.Unlock()
		answers := true
		if a.of != nil {
			a.why[""], a.reasons, answers = w.explain(ctx, *a.of)
			if _, known := last[a.lastOf]; !known && a.lastOf != "" {
				text, _ := lastLines(ctx, w.client, a.of.namespace, a.lastOf)
				last = map[string]string{a.lastOf: text}
			}
			a.last, jobs = last[a.lastOf], nil
		}
		for i := range jobs {
			j := &jobs[i]
			version, ended := string(j.UID)+j.ResourceVersion, batch.End(&j.Status) != nil
			reason, known := failed[version]
			if !ended || !known {
				reason, answers = w.reason(ctx, object{"jobs", j.Namespace, j.Name})
			}
			if ended && answers {
				failed[version] = reason
			}
			a.why[j.UID] = reason
			if !answers {
				break
			}
		}
		if pause = watchWhy; !answers {
			pause = watchWhyNot // a cluster does not know the request; or the Job is just gone
		}
		select {
		case w.answers <- a:
		case <-ctx.Done():
			return
		}
	}
}

// reason returns why a Job is in its state in a few words; false if the server does not say.
func (w *watcher) reason(ctx context.Context, of object) (string, bool) {
	brief, _, answers := w.explain(ctx, of)
	return brief, answers
}

// explain returns the reason also in full.
func (w *watcher) explain(ctx context.Context, of object) (brief, full string, answers bool) {
	said, err := askServerWhy(ctx, w.client, of)
	if err != nil {
		return "", "", false
	}
	var text bytes.Buffer
	_ = why.Print(&text, said) // a buffer takes everything
	return said.Reason, text.String(), true
}

// read reads keys: single characters, or their names.
func (w *watcher) read(ctx context.Context, in io.Reader) {
	defer close(w.keys)
	named := map[string]string{
		"\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down", "\x1b[5~": "pageup", "\x1b[6~": "pagedown",
		"\x1b": "esc", "\x1b[D": "esc", "\x1b[C": "enter", "\r": "enter", "\n": "enter", "\x03": "quit", "\x04": "quit", "\x7f": "backspace", "\b": "backspace",
	}
	buffer := make([]byte, 64)
	for {
		n, err := in.Read(buffer)
		if err != nil || n == 0 {
			return
		}
		rest, state := buffer[:n], byte(0)
		for len(rest) > 0 {
			_, _, size, next := ansi.DecodeSequence(rest, state, nil)
			key := string(rest[:max(1, size)])
			rest, state = rest[len(key):], next
			if name := named[key]; name != "" {
				key = name
			}
			select {
			case w.keys <- key:
			case <-ctx.Done():
				return
			}
		}
	}
}

// chosen returns what keys are about; nil if there is nothing.
func (w *watcher) chosen() *object {
	if w.job != nil {
		return w.job
	}
	if w.list.Selected < len(w.list.Jobs) {
		j := &w.list.Jobs[w.list.Selected]
		return &object{"jobs", j.Namespace, j.Name}
	}
	return nil
}

// press does what a key is for, and reports whether to go on.
func (w *watcher) press(ctx context.Context, key string) bool {
	if confirm := w.confirm; confirm != nil {
		w.confirm, w.note = nil, ""
		if key == "y" || key == "Y" {
			w.note = confirm()
			w.hurry()
		}
		return true
	}
	if w.list.Typing && w.job == nil {
		return w.typed(key)
	}
	switch key {
	case "k":
		key = "up"
	case "j":
		key = "down"
	case " ":
		key = "pagedown"
	case "backspace":
		key = "esc"
	}
	step := map[string]int{"up": -1, "down": 1, "pageup": -max(1, w.style.Height-3), "pagedown": max(1, w.style.Height-3)}[key]
	switch {
	case key == "q", key == "quit":
		return false
	case w.title != "":
		if w.from = max(0, min(w.from+step, strings.Count(w.text, "\n"))); key == "esc" {
			w.title, w.text, w.from = "", "", 0
		}
		return true
	case key == "?":
		w.show("jobctl watch", terminal.Keys, nil, false)
		return true
	case key == "esc" && w.set != nil && (w.job == nil || *w.job != *w.set):
		w.aim(w.set)
		return true
	case w.job != nil && w.job.resource == "jobsets":
		w.setKey(ctx, key, step, *w.job)
		return true
	case w.job == nil && w.listKey(key, step):
		return true
	case step != 0:
		if w.view.Failures != nil {
			w.failure = max(0, min(w.failure+step, len(w.view.Failures.Groups)-1))
			w.choose()
		}
		return true
	case key == "esc":
		if w.job != nil && !w.only {
			w.aim(nil)
		}
		return true
	}
	of := w.chosen()
	if of == nil {
		return true
	}
	switch key {
	case "enter":
		if w.job == nil {
			w.aim(of)
			return true
		}
		w.logs(ctx, *of)
	case "l":
		w.logs(ctx, *of)
	case "d":
		w.describe(*of)
	case "w":
		w.showWhy(ctx, *of)
	case "r":
		w.note = w.retry(ctx, *of)
		w.hurry()
	case "s":
		w.note = w.suspend(ctx, *of)
		w.hurry()
	case "x":
		w.note = fmt.Sprintf("Delete job %s and its pods? y/n", of.name)
		w.confirm = func() string {
			background := metav1.DeletePropagationBackground
			if err := w.client.BatchV1().Jobs(of.namespace).Delete(ctx, of.name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
				return err.Error()
			}
			if w.job != nil && !w.only {
				w.aim(nil)
			}
			return "job " + of.name + " deleted"
		}
	}
	return true
}

// showWhy shows why something is as it is, in full.
func (w *watcher) showWhy(ctx context.Context, of object) {
	_, text, answers := w.explain(ctx, of)
	if !answers {
		text = "The server does not say why."
	}
	w.show("why "+of.resource+"/"+of.name, text, nil, false)
}

// show puts a text over all else, from its beginning or from its end.
func (w *watcher) show(title, text string, err error, end bool) {
	if err != nil {
		w.note = err.Error()
		return
	}
	w.title, w.text, w.from = title, strings.TrimRight(text, "\n"), 0
	if end {
		w.from = max(0, strings.Count(w.text, "\n")+1-max(1, w.style.Height-2))
	}
}

// logs shows what the pod of the chosen failure has printed or, if there is none, the Job.
func (w *watcher) logs(ctx context.Context, of object) {
	if w.job != nil && w.view.Failures != nil && w.failure < len(w.view.Failures.Groups) {
		pod := w.view.Failures.Groups[w.failure].Pod
		text, err := lastLines(ctx, w.client, of.namespace, pod)
		w.show("pods/"+pod, text, err, true)
		return
	}
	answer := w.client.BatchV1().RESTClient().Get().Namespace(of.namespace).Resource("jobs").Name(of.name).SubResource("log").
		Param("tailLines", fmt.Sprint(watchedLines)).Param("prefix", "true").Param("limitBytes", fmt.Sprint(1<<20)).Do(ctx)
	err := answer.Error()
	text, _ := answer.Raw()
	w.show("jobs/"+of.name, string(text), err, true)
}

// describe shows the Job or JobSet, or the pod of the chosen failure, as jobctl describe does.
func (w *watcher) describe(of object) {
	kind, name := schema.GroupKind{Group: batchv1.GroupName, Kind: "Job"}, of.name
	if of.resource == "jobsets" {
		kind = schema.GroupKind{Group: jobsetv1.GroupVersion.Group, Kind: "JobSet"}
	}
	if w.job != nil && w.view.Failures != nil && w.failure < len(w.view.Failures.Groups) {
		kind, name = schema.GroupKind{Group: corev1.GroupName, Kind: "Pod"}, w.view.Failures.Groups[w.failure].Pod
	}
	text, err := func() (string, error) {
		mapper, err := w.f.ToRESTMapper()
		if err != nil {
			return "", err
		}
		mapping, err := mapper.RESTMapping(kind)
		if err != nil {
			return "", err
		}
		describer, err := describe.DescriberFn(w.f, mapping)
		if err != nil {
			return "", err
		}
		return describer.Describe(of.namespace, name, describe.DescriberSettings{ShowEvents: true, ChunkSize: 500})
	}()
	w.show(strings.ToLower(kind.Kind)+"s/"+name, text, err, false)
}

// suspend suspends a Job, or lets it go on, and returns what it has done.
func (w *watcher) suspend(ctx context.Context, of object) string {
	j, err := w.client.BatchV1().Jobs(of.namespace).Get(ctx, of.name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	j.APIVersion, j.Kind = "batch/v1", "Job"
	var said bytes.Buffer
	streams := genericiooptions.IOStreams{Out: &said, ErrOut: &said}
	if err := suspendOne(ctx, w.client, streams, j, !ptr.Deref(j.Spec.Suspend, false), true); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(said.String())
}
