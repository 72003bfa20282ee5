package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/indexes"
	wire "github.com/jobd/jobd/api/picture"
	"github.com/jobd/jobd/cmd/internal/about"
	"github.com/jobd/jobd/cmd/internal/page"
	"github.com/jobd/jobd/cmd/internal/submit"
	"github.com/jobd/jobd/daemon/picture"
)

const (
	// reportedCells and reportedLogs are of how many failed cells and pods a report has the details.
	reportedCells = 100
	reportedLogs  = 10
	// reportedEvents is how many events it has.
	reportedEvents = 300
)

// newReportCommand makes the command that writes what there is to know about a Job into one file.
func newReportCommand(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:                   "report (jobs/NAME | jobsets/NAME) [--json]",
		DisableFlagsInUseLine: true,
		Short:                 "Write a Job or JobSet as one page to look at and to send around",
		Long: `Write all there is to know about a Job to a web page in a single file, to read and to share: a picture with a cell for each index (or each pod of a Job without indexes), its failures grouped by exit code and last line, when its pods ran and what they used, events, accounting and the manifest. A bare name means a Job.

The page needs no server and no network. It contains no Secrets, but whatever the manifest and the logs say. For a deleted Job it shows what the history has kept.

Of a JobSet it shows the groups with the states of their Jobs and what they wait for, why it waits or which Job made it fail, events and the manifest.`,
		Example: `  # A Job as a page
  jobctl report jobs/train > train.html

  # For programs
  jobctl report jobs/train --json | jq '.picture.failures.groups[] | {exitCode, cells, line}'`,
		ValidArgsFunction: completion.SpecifiedResourceTypeAndNameCompletionFunc(f, about.Drawn),
		Run: func(cmd *cobra.Command, args []string) {
			cmdutil.CheckErr(writeReport(contextOf(cmd), f, streams, args, asJSON))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write the data as JSON instead of a page")
	return cmd
}

func writeReport(ctx context.Context, f cmdutil.Factory, streams genericiooptions.IOStreams, args []string, asJSON bool) error {
	objects, err := about.Named(f, about.Drawn, args)
	if err != nil {
		return err
	}
	if len(objects) != 1 {
		return errors.New("name one Job or JobSet: a report is about one")
	}
	of := objects[0]
	client, err := f.KubernetesClientSet()
	if err != nil {
		return err
	}
	collect := newReport
	if of.Resource == "jobsets" {
		collect = newSetReport
	}
	r, err := collect(ctx, client, of.Namespace, of.Name)
	if err != nil {
		return err
	}
	if asJSON {
		return writeJSON(streams.Out, r)
	}
	return page.Write(streams.Out, r)
}

// newReport collects what there is to know about a Job. What the client may not read is left out, all but the picture.
func newReport(ctx context.Context, client kubernetes.Interface, namespace, name string) (*page.Report, error) {
	r := &page.Report{APIVersion: page.APIVersion, Kind: page.Kind, At: time.Now().Truncate(time.Second)}
	j, err := client.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return pastReport(ctx, client, r, namespace, name, err)
	} else if err != nil {
		return nil, err
	}
	r.Picture = &wire.Picture{}
	if err := about.Picture(ctx, client, namespace, name, wire.Options{}, r.Picture); err != nil {
		return nil, err
	}
	r.Picture.Cursor = "" // nobody can ask with it later
	if r.Manifest, err = page.ManifestOf(j); err != nil {
		return nil, err
	}
	if said, err := explain(ctx, client, about.Object{Resource: "jobs", Namespace: namespace, Name: name}); err == nil {
		r.Why = said
	}
	cells := 0
	for i, g := range r.Picture.Failures.Groups {
		indexes.EachRun(g.Cells, func(first, last int32) {
			for c := int(first); c <= int(last) && cells < reportedCells; c++ {
				var pods wire.CellPods
				cells++
				if err := about.Picture(ctx, client, namespace, name, wire.Options{Cell: &c}, &pods); err == nil {
					r.Cells = append(r.Cells, pods)
				}
			}
		})
		if i >= reportedLogs {
			continue
		}
		if text, err := about.LastLines(ctx, client, namespace, g.Pod); err == nil && text != "" {
			if r.Logs == nil {
				r.Logs = map[string]string{}
			}
			r.Logs[g.Pod] = text
		}
	}
	r.Events = eventsAbout(ctx, client, j)
	if batch.End(&j.Status) != nil {
		if past, err := historyOf(ctx, client, namespace, name, string(j.UID), false); err == nil && past != nil {
			r.Accounting = past
		}
	}
	return r, nil
}

// newSetReport collects what there is to know about a JobSet. What the client may not read is left out, all but the picture.
func newSetReport(ctx context.Context, client kubernetes.Interface, namespace, name string) (*page.Report, error) {
	r := &page.Report{APIVersion: page.APIVersion, Kind: page.Kind, At: time.Now().Truncate(time.Second)}
	js, err := submit.GetJobSet(ctx, client, namespace, name)
	if err != nil {
		return nil, err
	}
	if r.Set, err = about.SetPicture(ctx, client, namespace, name); err != nil {
		return nil, err
	}
	if r.Manifest, err = page.ManifestOfSet(js); err != nil {
		return nil, err
	}
	if said, err := explain(ctx, client, about.Object{Resource: "jobsets", Namespace: namespace, Name: name}); err == nil {
		r.Why = said
	}
	r.Events = eventsAbout(ctx, client, js)
	return r, nil
}

// pastReport is about a Job that is gone and left only in the history.
func pastReport(
	ctx context.Context, client kubernetes.Interface, r *page.Report, namespace, name string, missing error,
) (*page.Report, error) {
	past, err := historyOf(ctx, client, namespace, name, "", true)
	if err != nil {
		return nil, err
	}
	if past == nil {
		return nil, missing
	}
	indexed := slices.ContainsFunc(past.Pods, func(p history.Pod) bool { return p.Index != "" })
	ended := picture.NewEnded(name, indexed)
	for i := range past.Pods {
		ended.Add(&past.Pods[i])
	}
	r.Picture = picture.Draw(picture.Subject{Past: past, Words: pastWords(past.Pods)}, ended, nil, r.At).Picture
	cells := 0
	for _, g := range r.Picture.Failures.Groups {
		indexes.EachRun(g.Cells, func(first, last int32) {
			for c := int(first); c <= int(last) && cells < reportedCells; c++ {
				cells++
				r.Cells = append(r.Cells, wire.CellPods{
					APIVersion: wire.APIVersion, Kind: wire.CellPodsKind, Cell: c, Pods: ended.Of(c, r.Picture.Cells.Per, nil),
				})
			}
		})
	}
	past.Pods = nil
	r.Accounting = past
	return r, nil
}

// pastWords returns what says the values of an index, by those of pods of the history; nil if none has any.
func pastWords(pods []history.Pod) func(index int) string {
	values := map[int]string{}
	for _, p := range pods {
		if index, err := strconv.Atoi(p.Index); err == nil && len(p.Values) > 0 {
			values[index] = batch.IndexWords(p.Values)
		}
	}
	if len(values) == 0 {
		return nil
	}
	return func(index int) string { return values[index] }
}

// eventsAbout returns the last events about an object, the oldest first; none if they cannot be read.
func eventsAbout(ctx context.Context, client kubernetes.Interface, of metav1.Object) (events []page.Event) {
	list, err := client.CoreV1().Events(of.GetNamespace()).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(of.GetUID())).String(),
	})
	if err != nil {
		return nil
	}
	for i := range list.Items {
		events = append(events, page.EventOf(&list.Items[i]))
	}
	slices.SortStableFunc(events, func(a, b page.Event) int { return a.At.Compare(b.At) })
	return events[max(0, len(events)-reportedEvents):]
}

// historyOf returns what the history has of the last Job of a name, or of the one with a UID; nil if it has none.
func historyOf(ctx context.Context, client kubernetes.Interface, namespace, name, uid string, pods bool) (found *history.Job, err error) {
	q := history.Query{Namespace: namespace, Name: name, Pods: pods, Limit: history.MaxLimit}
	for {
		request := client.BatchV1().RESTClient().Get().AbsPath(history.Path(namespace))
		for parameter, values := range q.Parameters() {
			request.Param(parameter, values[0])
		}
		answer := request.Do(ctx)
		if err := answer.Error(); apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		raw, err := answer.Raw()
		if err != nil {
			return nil, err
		}
		var page history.List
		if err := json.Unmarshal(raw, &page); err != nil {
			return nil, fmt.Errorf("the server's answer: %w", err)
		}
		for _, j := range page.Items {
			switch {
			case found == nil && !j.Part && (uid == "" || j.UID == uid):
				found, uid = &j, j.UID
			case found != nil && j.UID == uid: // a part, or an earlier attempt of a Job that was made to run again
				found.Pods = append(slices.Clone(j.Pods), found.Pods...)
			}
		}
		if q.Continue = page.Metadata.Continue; q.Continue == "" || found != nil && !pods {
			return found, nil
		}
	}
}
