package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/jobd/jobd/api/diskuse"
	"github.com/jobd/jobd/internal/ask"
	"github.com/jobd/jobd/internal/printable"
)

// ownersShown is how many owners of one kind are shown unless all are asked for.
const ownersShown = 3

// dfOptions are the flags of jobctl df.
type dfOptions struct {
	output string
	all    bool
}

// newDfCommand makes the command that says what jobd has on the disk.
func newDfCommand(dial ask.Daemon, streams genericiooptions.IOStreams) *cobra.Command {
	o := &dfOptions{}
	cmd := &cobra.Command{
		Use:                   "df [--all] [-o json]",
		DisableFlagsInUseLine: true,
		Short:                 "Show what jobd has on the disk, whose it is, and what bounds it",
		Long: `Show what jobd has on the disk by kind, who has most of it, and what keeps it from growing. The sizes of images are those of their content, which others may share; the line above them is what all take, with what containers have written to their own file systems.

All files are looked at, which can take a while.`,
		Example: `  # What takes the room
  jobctl df

  # All that is known of it, for programs
  jobctl df -o json`,
		Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			cmdutil.CheckErr(o.run(contextOf(cmd), dial, streams))
		},
	}
	cmd.Flags().BoolVar(&o.all, "all", false, fmt.Sprintf("Show up to %d owners of each kind instead of %d", diskuse.MaxOwners, ownersShown))
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "Output format. One of: (json)")
	return cmd
}

func (o *dfOptions) run(ctx context.Context, dial ask.Daemon, streams genericiooptions.IOStreams) error {
	if o.output != "" && o.output != "json" {
		return fmt.Errorf("unknown output format %q: json", o.output)
	}
	report := &diskuse.Report{}
	err := dial.JSON(ctx, http.MethodGet, diskuse.Path, report)
	var refusal *ask.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Code == http.StatusNotFound:
		return errors.New("the jobd that runs is an older one, which cannot say what it has on the disk")
	case err != nil:
		return err
	}
	if o.output == "json" {
		return writeJSON(streams.Out, report)
	}
	return o.print(streams.Out, report)
}

func (o *dfOptions) print(out io.Writer, report *diskuse.Report) error {
	w := printers.GetNewTabWriter(printable.Writer(out))
	fmt.Fprintf(w, "WHAT\tSIZE\tBOUND\n")
	var all int64
	for _, use := range report.Uses {
		all += use.Bytes
		fmt.Fprintf(w, "%s\t%s\t%s\n", use.Kind, size(use.Bytes), use.Bound)
		shown := use.Owners
		if !o.all {
			shown = shown[:min(len(shown), ownersShown)]
		}
		for _, owner := range shown {
			fmt.Fprintf(w, "  %s\t%s\t\n", owner.Name, size(owner.Bytes))
		}
		if more := use.Count - len(shown); more > 0 {
			fmt.Fprintf(w, "  and %d more\t\t\n", more)
		}
	}
	fmt.Fprintf(w, "all of it\t%s\t%s of %s are free at %s\n", size(all), size(report.Free), size(report.Size), report.Root)
	return w.Flush()
}
