// Package page writes what there is to know about one Job or JobSet as a web page that is a single file: its picture,
// what failed pods have printed, its events, what it has used, and its manifest. The page needs no server and no
// network. What others have written, such as names, logs and events, can only be text in it: the page's own policy allows
// no script but the one that it was written with.
package page

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/dashboard/assets"
	"github.com/jobd/jobd/api/gpus"
	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/picture"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/internal/printable"
	"github.com/jobd/jobd/internal/yamltext"
)

// APIVersion and Kind are those of every Report. Within the version fields may be added.
const (
	APIVersion = "report.jobd.dev/v1"
	Kind       = "Report"
)

// Report is what there is to know about a Job or a JobSet. Parts that are not known, or that its author may not read, are missing.
type Report struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	At         time.Time `json:"at"`

	// Picture is that of a Job, Set that of a JobSet.
	Picture *picture.Picture    `json:"picture,omitempty"`
	Set     *picture.SetPicture `json:"set,omitempty"`
	// Why is why the Job is in its state.
	Why *why.Explanation `json:"why,omitempty"`
	// Cells are the pods of cells that have failed, as far as they are not too many.
	Cells []picture.CellPods `json:"cells,omitempty"`
	// Logs are the last lines of some pods that have failed, by their names.
	Logs map[string]string `json:"logs,omitempty"`
	// Events are those of the Job, the oldest first.
	Events []Event `json:"events,omitempty"`
	// Accounting is what has become of it, from the history; nil while it has not ended.
	Accounting *history.Job `json:"accounting,omitempty"`
	// Manifest is the Job as somebody would create it again, as YAML.
	Manifest string `json:"manifest,omitempty"`
}

// Subject is what a report is about.
type Subject struct{ Kind, Namespace, Name, State string }

// Subject returns what the report is about.
func (r *Report) Subject() Subject {
	if s := r.Set; s != nil {
		return Subject{"JobSet", s.Namespace, s.Name, s.State}
	}
	j := r.Picture.Job
	return Subject{"Job", j.Namespace, j.Name, j.State}
}

// Event is an event of the Job.
type Event struct {
	At      time.Time `json:"at"`
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Count   int32     `json:"count"`
}

// EventOf returns what a report has of an event.
func EventOf(e *corev1.Event) Event {
	return Event{core.LastSeen(e), e.Type, e.Reason, e.Message, max(1, e.Count)}
}

// ManifestOf returns the manifest of a Job: what its author has written, without what the server has added. Secrets are
// only named in it.
func ManifestOf(j *batchv1.Job) (string, error) {
	spec := j.Spec.DeepCopy()
	spec.Template.Labels = written(spec.Template.Labels)
	if spec.ManualSelector == nil || !*spec.ManualSelector {
		spec.Selector = nil
	}
	return manifestOf("batch/v1", "Job", j, spec)
}

// ManifestOfSet returns the manifest of a JobSet in the same way.
func ManifestOfSet(js *jobsetv1.JobSet) (string, error) {
	return manifestOf(jobsetv1.GroupVersion.String(), "JobSet", js, &js.Spec)
}

func manifestOf(version, kind string, obj metav1.Object, spec any) (string, error) {
	text, err := yamltext.Marshal(struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              any `json:"spec"`
	}{
		metav1.TypeMeta{APIVersion: version, Kind: kind},
		metav1.ObjectMeta{
			Name: obj.GetName(), Namespace: obj.GetNamespace(), Labels: written(obj.GetLabels()), Annotations: written(obj.GetAnnotations()),
		}, spec,
	})
	return string(bytes.ReplaceAll(text, []byte("  creationTimestamp: null\n"), nil)), err
}

// written returns the labels or annotations that somebody has written.
func written(all map[string]string) map[string]string {
	generated := []string{batchv1.ControllerUidLabel, batchv1.JobNameLabel, "controller-uid", "job-name", corev1.LastAppliedConfigAnnotation}
	out := map[string]string{}
	for k, v := range all {
		if !slices.Contains(generated, k) {
			out[k] = v
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

//go:embed report.css
var ownStyle string

//go:embed report.js
var ownScript string

var page = template.Must(template.New("report").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'sha256-{{.ScriptHash}}'; style-src 'sha256-{{.StyleHash}}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{{with .Report.Subject}}<title>{{.Kind}} {{.Name}}: {{.State}}</title>{{end}}
<style>{{.Style}}</style>
</head>
<body>
<header>
{{with .Report.Subject}}<h1>{{.Name}}</h1>
<p>{{.Kind}} in namespace {{.Namespace}}, {{end}}as of {{.Report.At.Format "2006-01-02 15:04:05 MST"}}</p>
</header>
<noscript><p>The picture needs JavaScript; the tables below do not.</p></noscript>
<main>
<div id="picture"></div>
{{with .Report.Why}}{{if .Causes}}<section>
<h2>Why</h2>
<p>{{.Message}}</p>
<ul>{{range .Causes}}{{template "cause" .}}{{end}}</ul>
</section>{{end}}{{end}}
{{if .Report.Logs}}<section>
<h2>What failed pods have printed last</h2>
{{range $pod, $text := .Report.Logs}}<details open><summary>{{$pod}}</summary><pre>{{$text}}</pre></details>
{{end}}</section>{{end}}
{{if .Accounting}}<section>
<h2>Accounting</h2>
<table>{{range .Accounting}}<tr><th>{{index . 0}}</th><td>{{index . 1}}</td></tr>{{end}}</table>
</section>{{end}}
{{if .Report.Events}}<section>
<h2>Events</h2>
<table class="events">{{range .Report.Events}}<tr><td>{{.At.Format "2006-01-02 15:04:05"}}</td><td>{{.Type}}</td><td>{{.Reason}}{{if gt .Count 1}} ×{{.Count}}{{end}}</td><td>{{.Message}}</td></tr>
{{end}}</table>
</section>{{end}}
{{if .Report.Manifest}}<section>
<h2>Manifest</h2>
<pre>{{.Report.Manifest}}</pre>
</section>{{end}}
</main>
<script type="application/json" id="data">{{.Data}}</script>
<script type="module">{{.Script}}</script>
</body>
</html>
{{define "cause"}}<li>{{with .Object}}<b>{{.}}</b>: {{end}}{{.Message}}{{if .Log}}<pre>{{range .Log}}{{.}}
{{end}}</pre>{{end}}{{if .Causes}}<ul>{{range .Causes}}{{template "cause" .}}{{end}}</ul>{{end}}</li>{{end}}
`))

// Write writes a report as a page.
func Write(w io.Writer, r *Report) error {
	script, err := assets.FS.ReadFile("picture.js")
	if err != nil {
		return err
	}
	set, err := assets.FS.ReadFile("set.js")
	if err != nil {
		return err
	}
	// Here it is in one module with what it imports, in its first line.
	_, set, _ = bytes.Cut(set, []byte("\n"))
	style, err := assets.FS.ReadFile("picture.css")
	if err != nil {
		return err
	}
	module, sheet := string(script)+string(set)+ownScript, string(style)+ownStyle
	// What the script draws; the rest is in the page as text already. Marshal escapes what could end the element.
	data, err := json.Marshal(map[string]any{"picture": r.Picture, "set": r.Set, "cells": r.Cells})
	if err != nil {
		return err
	}
	// Whoever forgets ">FILE" has it on the terminal, and text in another order than it is in deceives in a browser too.
	return page.Execute(printable.Writer(w), map[string]any{
		"Report": r, "Accounting": accounting(r),
		"Script": template.JS(module), "ScriptHash": template.HTMLAttr(hash(module)),
		"Style": template.CSS(sheet), "StyleHash": template.HTMLAttr(hash(sheet)),
		"Data": template.JS(data),
	})
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// accounting returns what there is to say about what the Job has used, line by line.
func accounting(r *Report) (lines [][2]string) {
	add := func(name, value string) {
		if value != "" {
			lines = append(lines, [2]string{name, value})
		}
	}
	moment := func(seconds int64) string {
		if seconds <= 0 {
			return ""
		}
		return time.Unix(seconds, 0).Format("2006-01-02 15:04:05 MST")
	}
	if s := r.Set; s != nil {
		add("created", moment(s.Created))
		add("ended", moment(s.Ended))
		if s.Ended > 0 {
			add("took", (time.Duration(s.Ended-s.Created) * time.Second).String())
		}
		add("restarts", fmt.Sprint(s.Restarts))
		return lines
	}
	j := r.Picture.Job
	if a := r.Accounting; a != nil {
		add("created by", a.User)
		add("CronJob", a.CronJob)
	}
	add("created", moment(j.Created))
	add("started", moment(j.Started))
	add("ended", moment(j.Ended))
	if j.Started > 0 && j.Ended >= j.Started {
		add("took", (time.Duration(j.Ended-j.Started) * time.Second).String())
	}
	add("pods that have ended", fmt.Sprint(j.EndedPods))
	add("retries", fmt.Sprint(j.Retries))
	add("processor time", (time.Duration(j.CPUSeconds*1000) * time.Millisecond).String())
	if h := r.Picture.Histograms; h != nil && h.Memory != nil {
		add("peak memory of one container", fmt.Sprintf("%.1f Mi", h.Memory.Most/(1<<20)))
	}
	if a := r.Accounting; a != nil && a.GPUSeconds > 0 {
		add("GPU time", (time.Duration(a.GPUSeconds*1000) * time.Millisecond).String())
		if a.GPUBusySeconds > 0 {
			add("GPUs busy", fmt.Sprintf("%.0f %% of it", min(100, 100*a.GPUBusySeconds/a.GPUSeconds)))
		}
		if a.PeakGPUMemory > 0 {
			add("peak GPU memory of one pod", gpus.Bytes(a.PeakGPUMemory))
		}
	}
	return lines
}
