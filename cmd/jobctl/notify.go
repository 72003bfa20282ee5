package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/internal/ask"
	"github.com/jobd/jobd/internal/printable"
)

// newNotifyCommand makes the commands about receivers of notices.
func newNotifyCommand(dial ask.Daemon, streams genericiooptions.IOStreams) *cobra.Command {
	c := &receiversClient{dial, streams}
	var output string
	cmd := &cobra.Command{
		Use:                   "notify [-o json]",
		DisableFlagsInUseLine: true,
		Short:                 "List whom jobd can tell of Jobs, and try it",
		Long: `List the receivers that the administrator has set up (notify-receivers in jobd.yaml), and how the last delivery to each went. Whoever can use the socket may do so.

One that is "<not set up>" is not in the settings, or no more: somebody has asked for it in the last 30 days, and nobody was told.

The annotations jobd.dev/notify and jobd.dev/notify-on of a namespace, a CronJob or a Job say which receivers are told of what.`,
		Example: `  # Who can be told, and when that last worked
  jobctl notify

  # Does it work now?
  jobctl notify test ops`,
		Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			cmdutil.CheckErr(c.list(contextOf(cmd), output, time.Now()))
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "Output format. One of: (json)")
	cmd.AddCommand(&cobra.Command{
		Use:                   "test NAME",
		DisableFlagsInUseLine: true,
		Short:                 "Deliver a notice to a receiver, and say why that fails",
		Long: `Deliver a notice of the kind test to a receiver, and say why that fails.

To a healthcheck it only connects: any request would be a ping that says that a Job has succeeded. Whether there are its checks shows with the first Job.`,
		Example: `  # Does it work now?
  jobctl notify test ops`,
		Args: cobra.ExactArgs(1),
		Run: func(cmd *cobra.Command, args []string) {
			cmdutil.CheckErr(c.test(contextOf(cmd), args[0]))
		},
	})
	return cmd
}

// receiversClient sends the requests of package api/notices to the daemon.
type receiversClient struct {
	daemon ask.Daemon
	genericiooptions.IOStreams
}

func (c *receiversClient) list(ctx context.Context, output string, now time.Time) error {
	if output != "" && output != "json" {
		return fmt.Errorf("unknown output format %q: json", output)
	}
	var list notices.List
	if err := c.daemon.JSON(ctx, http.MethodGet, notices.Path, &list); err != nil {
		return err
	}
	if output == "json" {
		return writeJSON(c.Out, list)
	}
	if len(list.Items) == 0 {
		_, err := fmt.Fprintln(c.ErrOut, "There are no receivers: set notify-receivers in jobd.yaml (docs/notices.md).")
		return err
	}
	w := printers.GetNewTabWriter(printable.Writer(c.Out))
	fmt.Fprintln(w, "NAME\tKIND\tTO\tPENDING\tDELIVERED\tLAST\tLOST\tREFUSED\tERROR")
	for _, r := range list.Items {
		last := "<none>"
		if r.DeliveredAt != nil {
			last = age(*r.DeliveredAt, now)
		}
		cells := []string{
			r.Name, cmp.Or(r.Kind, "<not set up>"), orNone(r.To), strconv.Itoa(r.Pending),
			strconv.Itoa(r.Delivered), last, strconv.Itoa(r.Lost), strconv.Itoa(r.Refused),
			orNone(printable.Line(cmp.Or(r.Unwritten, r.LastError, r.LostError, r.RefusedError))),
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

func (c *receiversClient) test(ctx context.Context, name string) error {
	if err := c.daemon.Do(ctx, http.MethodPost, notices.Path+"?"+url.Values{"test": {name}}.Encode(), nil); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var list notices.List
	if err := c.daemon.JSON(ctx, http.MethodGet, notices.Path, &list); err != nil {
		return err
	}
	said := name + " has taken a notice"
	for _, r := range list.Items {
		if r.Name == name && r.Kind == "healthcheck" {
			said = name + " can be reached. It was not pinged: that would say that a Job has succeeded"
		}
	}
	_, err := fmt.Fprintln(c.Out, said)
	return err
}
