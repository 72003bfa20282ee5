package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

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

const (
	jobsShown  = 20 // with --by-job
	usersShown = 2  // of one image or claim
)

// dfOptions are the flags of jobctl df.
type dfOptions struct {
	output string
	all    bool
	byJob  bool
}

// newDfCommand makes the command that says what jobd has on the disk.
func newDfCommand(dial ask.Daemon, streams genericiooptions.IOStreams) *cobra.Command {
	o := &dfOptions{}
	cmd := &cobra.Command{
		Use:                   "df [--all] [--by-job] [-o json]",
		DisableFlagsInUseLine: true,
		Short:                 "Show what jobd has on the disk, whose it is, who uses it, and what bounds it",
		Long: `Show what jobd has on the disk by kind (images, logs, files, claims, the database), who has most of it, who uses images and claims now, and what keeps it from growing. The size of an image is what it has on the disk, as it came and unpacked; SHARED is what of that other images have too. The line above them is what all take, where this counts once, with what containers have written to their own file systems.

All files are looked at, which can take a while.`,
		Example: `  # What takes the room
  jobctl df

  # Which Jobs have most
  jobctl df --by-job

  # All that is known of it, for programs
  jobctl df -o json`,
		Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			cmdutil.CheckErr(o.run(contextOf(cmd), dial, streams))
		},
	}
	cmd.Flags().BoolVar(&o.all, "all", false, fmt.Sprintf("Show up to %d owners of each kind instead of %d", diskuse.MaxOwners, ownersShown))
	cmd.Flags().BoolVar(&o.byJob, "by-job", false, "Show what the pods of each Job have: logs, volumes and kept files")
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
	if o.byJob {
		return o.printJobs(streams.Out, report)
	}
	return o.print(streams.Out, report)
}

// shown returns how many of those that a report names are shown.
func (o *dfOptions) shown(named int) int {
	if o.all {
		return named
	}
	return min(named, ownersShown)
}

// printJobs shows what each Job has. Without --all that is more of them than of the owners of each kind, since there is nothing else.
func (o *dfOptions) printJobs(out io.Writer, report *diskuse.Report) error {
	w := printers.GetNewTabWriter(printable.Writer(out))
	fmt.Fprintf(w, "JOB\tSIZE\tOF WHICH\n")
	shown := report.Jobs[:min(len(report.Jobs), max(o.shown(len(report.Jobs)), jobsShown))]
	for _, j := range shown {
		var kinds []string
		for _, kind := range slices.Sorted(maps.Keys(j.Kinds)) {
			if n := j.Kinds[kind]; n > 0 {
				kinds = append(kinds, kind+" "+size(n))
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", j.Name, size(j.Bytes), strings.Join(kinds, ", "))
	}
	if more := report.JobCount - len(shown); more > 0 {
		fmt.Fprintf(w, "and %d more\t\t\n", more)
	}
	return w.Flush()
}

// users names who uses something, and how many more.
func users(o diskuse.Owner) string {
	if o.UserCount == 0 {
		return ""
	}
	named := o.UsedBy[:min(len(o.UsedBy), usersShown)]
	text := "used by " + strings.Join(named, ", ")
	if more := o.UserCount - len(named); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (o *dfOptions) print(out io.Writer, report *diskuse.Report) error {
	w := printers.GetNewTabWriter(printable.Writer(out))
	fmt.Fprintf(w, "WHAT\tSIZE\tSHARED\tBOUND, OR WHO USES IT\n")
	var all int64
	for _, use := range report.Uses {
		all += use.Bytes
		fmt.Fprintf(w, "%s\t%s\t\t%s\n", use.Kind, size(use.Bytes), use.Bound)
		shown := use.Owners[:o.shown(len(use.Owners))]
		for _, owner := range shown {
			shared := ""
			if owner.Shared > 0 {
				shared = size(owner.Shared)
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", owner.Name, size(owner.Bytes), shared, users(owner))
		}
		if more := use.Count - len(shown); more > 0 {
			fmt.Fprintf(w, "  and %d more\t\t\t\n", more)
		}
	}
	fmt.Fprintf(w, "all of it\t%s\t\t%s of %s are free at %s\n", size(all), size(report.Free), size(report.Size), report.Root)
	return w.Flush()
}
