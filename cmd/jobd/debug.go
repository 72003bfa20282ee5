package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/jobd/jobd/api/inspection"
	"github.com/jobd/jobd/daemon/config"
	"github.com/jobd/jobd/daemon/maintenance"
)

func newDebugCommand() *cobra.Command {
	settings, format, during := config.Default(), "", time.Second
	cmd := &cobra.Command{
		Use:   "debug",
		Short: "Show what a running daemon is doing: its passes, timers, workers and locks",
		Long: `Show what a running daemon is doing: what the watchdog sees of the control loop, the database and the lock of the network, what
each concern of the loop waits for, the passes that the loop makes while one looks, and the steps of pods that are under way. It is for
those who work on jobd or report that it is slow; the format may change with every version.

On the same socket are Go's own profiles: curl --unix-socket STATE/jobd.sock http://jobd/debug/pprof/`,
		Example: "  jobd debug --during 5s\n  jobd debug -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "" && format != "json" {
				return fmt.Errorf("--output: %q is not known: json", format)
			}
			if settings.Socket == "" {
				settings.Socket = settings.StateLayout().Socket()
			}
			is, err := inspect(cmd.Context(), settings.Socket, during)
			if err != nil {
				return err
			}
			if format == "json" {
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(is)
			}
			return writeInspection(cmd.OutOrStdout(), is)
		},
	}
	settings.AddDirs(cmd.Flags())
	cmd.Flags().StringVar(&settings.Socket, "socket", "", "socket of the daemon (STATE/jobd.sock)")
	cmd.Flags().StringVarP(&format, "output", "o", "", "json, for programs")
	cmd.Flags().DurationVar(&during, "during", during, "how long passes are collected")
	return cmd
}

// inspect asks a daemon twice: only from the first question on it notes its passes.
func inspect(ctx context.Context, socket string, during time.Duration) (*inspection.Daemon, error) {
	first, err := maintenance.Inspect(ctx, socket)
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(during):
	}
	is, err := maintenance.Inspect(ctx, socket)
	if err == nil && is.Loop != nil {
		is.Loop.Passes = slices.DeleteFunc(is.Loop.Passes, func(p inspection.Pass) bool { return p.At.Before(first.At) })
	}
	return is, err
}

// tenantsShown is of how many namespaces it is shown how many slots they have.
const tenantsShown = 10

// writeInspection writes what a daemon is doing, for people.
func writeInspection(out io.Writer, is *inspection.Daemon) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "version %d, %d goroutines\n\nWATCHED\tNOW\tFOR\tTURNS\n", is.Version, is.Goroutines)
	for _, s := range is.Sections {
		now := "idle"
		if s.Busy {
			now = strings.TrimSpace(cmp.Or(s.Concern, "at work") + " " + s.Object)
		}
		if s.Disk {
			now += " (waits for the disk)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\n", s.Name, now, s.Lasts.Round(time.Second), s.Turns)
	}
	if is.Loop == nil {
		fmt.Fprintf(w, "\n%s\n", is.LoopError)
	} else {
		writeLoop(w, is)
	}
	if m := is.Manifests; m != nil {
		fmt.Fprintf(w, "\nMANIFESTS\t%s\t%d objects, %d problems\n", m.Dir, m.Objects, len(m.Problems))
	}
	for _, why := range is.Waiting {
		fmt.Fprintf(w, "\nADDRESSES\t%s\n", why)
	}
	p := is.Workers
	fmt.Fprintf(w, "\nWORKERS\t%d pods, %d steps under way, %d stuck; %d slots free, %d pods wait for one\n", p.Pods, len(p.Steps), p.Stuck, p.Free, p.Waiting)
	for _, t := range p.Tenants[:min(len(p.Tenants), tenantsShown)] {
		fmt.Fprintf(w, "  %s/\t%d slots, and %d lent while steps take long\t%d pods wait\n", t.Namespace, t.Held, t.Lent, t.Waiting)
	}
	if more := len(p.Tenants) - tenantsShown; more > 0 {
		fmt.Fprintf(w, "  and %d more namespaces\n", more)
	}
	for _, s := range p.Steps {
		fmt.Fprintf(w, "  %s\t%s\tfor %v\t%s\n", s.Pod, s.Name, is.At.Sub(s.Since).Round(time.Millisecond), strings.Join(s.Queued, " "))
	}
	return w.Flush()
}

func writeLoop(w io.Writer, is *inspection.Daemon) {
	l := is.Loop
	fmt.Fprintf(w, "\nCONCERN\tTIMERS\tNEXT\tDECIDES\n")
	for _, c := range l.Concerns {
		next, decides := "-", ""
		if c.Next != nil {
			next = "in " + max(0, c.Next.Sub(is.At)).Round(time.Millisecond).String()
		}
		if c.Dirty {
			decides = "now"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", c.Name, c.Timers, next, decides)
	}
	fmt.Fprintf(w, "\nThe loop has taken in everything up to version %d; %d reports of workers wait.\n", l.Folded, l.Reports)
	fmt.Fprintf(w, "\nPASS\tTOOK\tOBSERVED\tWRITTEN\tSTEPS\tMOST TIME IN\n")
	for _, p := range l.Passes {
		var notes []string
		slowest := slices.SortedFunc(maps.Keys(p.Concerns), func(a, b string) int { return cmp.Compare(p.Concerns[b], p.Concerns[a]) })
		for _, name := range slowest[:min(3, len(slowest))] {
			notes = append(notes, fmt.Sprintf("%s %v", name, p.Concerns[name].Round(time.Microsecond)))
		}
		if p.Joined {
			notes = append(notes, "(in a client's transaction)")
		}
		if p.Exhausted {
			notes = append(notes, "(the rest is left to the next)")
		}
		if p.Error != "" {
			notes = append(notes, "not written: "+p.Error)
		}
		fmt.Fprintf(w, "%s\t%v\t%d\t%d\t%d\t%s\n", p.At.Format("15:04:05.000"), p.Took.Round(10*time.Microsecond),
			p.Observations, p.Written, p.Steps, strings.Join(notes, ", "))
	}
}
