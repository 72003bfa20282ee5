package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/internal/printable"
)

// namesShown is how many Jobs of a group are named in a table.
const namesShown = 5

// concurrencyGroup is a group of Jobs of which only some run at a time, as "jobctl get groups" shows it.
type concurrencyGroup struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Limit is the smallest that one of its Jobs has.
	Limit   int      `json:"limit"`
	Running []string `json:"running"` // those that have begun and not ended
	Waiting []string `json:"waiting"` // in their order, as far as the Jobs tell it
}

// extendGet adds what jobd has beside kinds of objects.
func extendGet(root *cobra.Command, f cmdutil.Factory, streams genericiooptions.IOStreams) {
	get, _, err := root.Find([]string{"get"})
	if err != nil || get == root {
		return
	}
	var all bool
	var output string
	cmd := &cobra.Command{
		Use:                   "groups",
		Aliases:               []string{"group", "concurrencygroups"},
		DisableFlagsInUseLine: true,
		Short:                 "List concurrency groups: which of their Jobs run, and which wait",
		Long:                  `List the concurrency groups of Jobs (annotation ` + core.ConcurrencyGroupAnnotation + `): how many Jobs of each may run at a time, which do, and which wait. A group is listed while a Job of it runs or waits.`,
		Args:                  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			cmdutil.CheckErr(getGroups(contextOf(cmd), f, streams, all, output))
		},
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "List those of all namespaces")
	cmd.Flags().StringVarP(&output, "output", "o", "", "Output format. One of: (json)")
	get.AddCommand(cmd)
}

func getGroups(ctx context.Context, f cmdutil.Factory, streams genericiooptions.IOStreams, all bool, output string) error {
	if output != "" && output != "json" {
		return fmt.Errorf("unknown output format %q: one of json", output)
	}
	namespace, _, err := f.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return err
	}
	if all {
		namespace = metav1.NamespaceAll
	}
	client, err := f.KubernetesClientSet()
	if err != nil {
		return err
	}
	jobs, err := client.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defaults := map[string]core.Concurrency{}
	for i := range jobs.Items {
		name := jobs.Items[i].Namespace
		if _, known := defaults[name]; known {
			continue
		}
		defaults[name] = core.Concurrency{}
		// Who may not read the namespace sees the groups that Jobs name.
		if ns, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err == nil {
			defaults[name], _ = core.NamespaceConcurrency(name, ns.Annotations)
		}
	}
	groups := groupsOf(jobs.Items, defaults)
	if output == "json" {
		return writeJSON(streams.Out, groups)
	}
	if len(groups) == 0 {
		fmt.Fprintln(streams.ErrOut, "No Job of a concurrency group runs or waits.")
		return nil
	}
	return printGroups(streams.Out, groups, all)
}

// groupsOf returns the groups of Jobs. defaults are those of namespaces, for Jobs that name none.
func groupsOf(jobs []batchv1.Job, defaults map[string]core.Concurrency) []concurrencyGroup {
	jobs = slices.Clone(jobs)
	slices.SortFunc(jobs, func(a, b batchv1.Job) int {
		return cmp.Or(
			batch.Prioritized(b.Annotations).Compare(batch.Prioritized(a.Annotations)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})
	groups := []concurrencyGroup{}
	for i := range jobs {
		j := &jobs[i]
		c, ok := core.ConcurrencyOf(j.Annotations)
		if !ok {
			c = defaults[j.Namespace]
		}
		placed := batch.Placed(j)
		if c.Group == "" || !placed && !batch.Unplaced(j) {
			continue
		}
		at := slices.IndexFunc(groups, func(g concurrencyGroup) bool { return g.Namespace == j.Namespace && g.Name == c.Group })
		if at < 0 {
			at = len(groups)
			groups = append(groups, concurrencyGroup{Namespace: j.Namespace, Name: c.Group, Limit: c.Limit, Running: []string{}, Waiting: []string{}})
		}
		g := &groups[at]
		if g.Limit = min(g.Limit, c.Limit); placed {
			g.Running = append(g.Running, j.Name)
		} else {
			g.Waiting = append(g.Waiting, j.Name)
		}
	}
	slices.SortFunc(groups, func(a, b concurrencyGroup) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return groups
}

func printGroups(out io.Writer, groups []concurrencyGroup, all bool) error {
	w := printers.GetNewTabWriter(out)
	head := "GROUP\tLIMIT\tRUNNING\tWAITING\tJOBS"
	if all {
		head = "NAMESPACE\t" + head
	}
	fmt.Fprintln(w, head)
	for _, g := range groups {
		if all {
			fmt.Fprintf(w, "%s\t", printable.Line(g.Namespace))
		}
		var jobs []string
		for _, part := range []struct {
			words string
			names []string
		}{{"", g.Running}, {"then ", g.Waiting}} {
			if len(part.names) == 0 {
				continue
			}
			text := part.words + strings.Join(part.names[:min(len(part.names), namesShown)], ",")
			if more := len(part.names) - namesShown; more > 0 {
				text += fmt.Sprintf(",+%d", more)
			}
			jobs = append(jobs, text)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\n", printable.Line(g.Name), g.Limit, len(g.Running), len(g.Waiting), printable.Line(strings.Join(jobs, ", ")))
	}
	return w.Flush()
}
