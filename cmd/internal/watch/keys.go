package watch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/describe"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/cmd/internal/about"
	"github.com/jobd/jobd/cmd/internal/terminal"
)

// mostLines is how much is shown of a log.
const mostLines = 1000

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
func (w *watcher) chosen() *about.Object {
	if w.job != nil {
		return w.job
	}
	if w.list.Selected < len(w.list.Jobs) {
		j := &w.list.Jobs[w.list.Selected]
		return &about.Object{Resource: "jobs", Namespace: j.Namespace, Name: j.Name}
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
	case w.job != nil && w.job.Resource == "jobsets":
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
		w.note = fmt.Sprintf("Delete job %s and its pods? y/n", of.Name)
		w.confirm = func() string {
			background := metav1.DeletePropagationBackground
			if err := w.client.BatchV1().Jobs(of.Namespace).Delete(ctx, of.Name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
				return err.Error()
			}
			if w.job != nil && !w.only {
				w.aim(nil)
			}
			return "job " + of.Name + " deleted"
		}
	}
	return true
}

// showWhy shows why something is as it is, in full.
func (w *watcher) showWhy(ctx context.Context, of about.Object) {
	_, text, answers := w.explain(ctx, of)
	if !answers {
		text = "The server does not say why."
	}
	w.show("why "+of.Resource+"/"+of.Name, text, nil, false)
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
func (w *watcher) logs(ctx context.Context, of about.Object) {
	if w.job != nil && w.view.Failures != nil && w.failure < len(w.view.Failures.Groups) {
		pod := w.view.Failures.Groups[w.failure].Pod
		text, err := about.LastLines(ctx, w.client, of.Namespace, pod)
		w.show("pods/"+pod, text, err, true)
		return
	}
	answer := w.client.BatchV1().RESTClient().Get().Namespace(of.Namespace).Resource("jobs").Name(of.Name).SubResource("log").
		Param("tailLines", fmt.Sprint(mostLines)).Param("prefix", "true").Param("limitBytes", fmt.Sprint(1<<20)).Do(ctx)
	err := answer.Error()
	text, _ := answer.Raw()
	w.show("jobs/"+of.Name, string(text), err, true)
}

// describe shows the Job or JobSet, or the pod of the chosen failure, as jobctl describe does.
func (w *watcher) describe(of about.Object) {
	kind, name := schema.GroupKind{Group: batchv1.GroupName, Kind: "Job"}, of.Name
	if of.Resource == "jobsets" {
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
		return describer.Describe(of.Namespace, name, describe.DescriberSettings{ShowEvents: true, ChunkSize: 500})
	}()
	w.show(strings.ToLower(kind.Kind)+"s/"+name, text, err, false)
}

// suspend suspends a Job, or lets it go on, and returns what it has done.
func (w *watcher) suspend(ctx context.Context, of about.Object) string {
	j, err := w.client.BatchV1().Jobs(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	j.APIVersion, j.Kind = "batch/v1", "Job"
	var said bytes.Buffer
	streams := genericiooptions.IOStreams{Out: &said, ErrOut: &said}
	if err := w.setSuspended(ctx, w.client, streams, j, !ptr.Deref(j.Spec.Suspend, false), true); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(said.String())
}
