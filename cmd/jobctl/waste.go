package main

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/internal/printable"
)

// What jobctl history --waste may be sorted by.
const (
	wasteMemory = "memory"
	wasteCPU    = "cpu"
)

// wasteJobs is how many Jobs, the latest, --waste adds up at most.
const wasteJobs = 20_000

// printWaste prints what the runs of each name have asked for and not used. more says that there are older Jobs that were not read.
func (o *historyOptions) printWaste(streams genericiooptions.IOStreams, jobs []history.Job, more bool) error {
	all := history.Wasted(jobs, o.waste == wasteCPU)
	if more {
		defer fmt.Fprintf(streams.ErrOut, "This adds up the %d Jobs that ended last; --since and -l choose others.\n", len(jobs))
	}
	if len(all) == 0 {
		_, err := fmt.Fprintf(streams.ErrOut, "No Jobs found that have asked for more %s than they used.\n", map[string]string{
			wasteMemory: "memory", wasteCPU: "CPU",
		}[o.waste])
		return err
	}
	w := printers.GetNewTabWriter(printable.Writer(streams.Out))
	columns := []string{"NAME", "RUNS", "MEMORY-REQUEST", "MEMORY-USED", "MEMORY-WASTED", "CPU-REQUEST", "CPU-USED", "CPU-WASTED"}
	if o.everywhere {
		columns = append([]string{"NAMESPACE"}, columns...)
	}
	if !o.noHeaders {
		fmt.Fprintln(w, strings.Join(columns, "\t"))
	}
	for i, row := range all {
		if o.limit > 0 && i == o.limit {
			defer fmt.Fprintf(streams.ErrOut, "These are the first %d of %d; --limit 0 shows all.\n", o.limit, len(all))
			break
		}
		cells := []string{
			row.Name, strconv.Itoa(row.Runs), requested(row.Asked.MemoryRequest), bytesOf(row.Memory), hours(row.MemorySeconds/(1<<30), "Gi·h"),
			cpusOf(row.Asked.CPURequest), cpusOf(row.CPU), hours(row.CPUSeconds, "CPU·h"),
		}
		if o.everywhere {
			cells = append([]string{row.Namespace}, cells...)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

// hours returns a product of something and seconds as one of hours.
func hours(seconds float64, unit string) string {
	return strconv.FormatFloat(seconds/3600, 'f', 2, 64) + unit
}

// cpusOf returns a number of CPUs as the API writes it.
func cpusOf(n float64) string {
	switch {
	case n <= 0:
		return "<none>"
	case n >= 10:
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return strconv.Itoa(int(n*1000+.5)) + "m"
}

// requested returns an amount of memory that is asked for.
func requested(n int64) string {
	if n <= 0 {
		return "<none>"
	}
	return bytesOf(n)
}
