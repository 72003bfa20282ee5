// Command bench measures jobd against what the machine can do: raw runs of the OCI runtime, alternating with jobd's in the
// same run. It prints tables in Markdown, or with -json one figure a line in the format of Go's benchmarks, which
// benchstat compares between two commits.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jobd/jobd/testdata/rig"
)

func main() {
	bin := flag.String("bin", "bin", "directory of jobd, jobd-shim and jobctl")
	rounds := flag.Int("rounds", 5, "rounds of everything that alternates, at least; medians are reported")
	most := flag.Int("most", 20, "rounds of the part throughput at most: it goes on until its ratios are known to 10 %")
	parallels := []int{1, 2, 4, 8, 32}
	flag.Func("parallel", "measure the part throughput only with so many pods at a time", func(value string) error {
		n, err := strconv.Atoi(value)
		parallels = []int{n}
		return err
	})
	pods := flag.Int("pods", 200, "pods of a Job whose throughput is measured")
	place := flag.String("disk", "loop", "where root directories are: loop (an ext4 with a journal, in a file in /var/tmp), machine (/var/tmp) or a directory")
	perf := flag.Bool("perf", false, "have the part profile show where perf sees the processors' time")
	strace := flag.Bool("strace", false, "have the part profile count the system calls of a pod with strace")
	otherCrun := flag.String("crun", "", "another crun, such as one of testdata/crun/static.sh, which jobd uses in tables of their own in the part throughput")
	against := flag.String("against", "", "directory of another build of jobd, which the part network measures in turns with -bin")
	heap := flag.String("heap", "", "file to which the part waiting writes a profile of the daemon's heap")
	machine := flag.Bool("json", false, "print figures for benchstat instead of tables")
	quick := flag.Bool("quick", false, "one round, and nothing with 100,000 pods")
	only := flag.String("only", "", "run only the parts whose name contains this")
	flag.Parse()
	if *quick {
		*rounds, *most = 1, 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *against != "" {
		*against = abs(*against)
	}
	if *otherCrun != "" {
		*otherCrun = abs(*otherCrun)
	}
	b := &bench{
		bin: abs(*bin), against: *against, crun: *otherCrun, rounds: *rounds, most: *most, parallels: parallels, pods: *pods, quick: *quick, only: *only,
		perf: *perf, strace: *strace, heap: *heap, report: &report{machine: *machine},
	}
	if err := run(ctx, b, *place); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func abs(path string) string {
	p, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	return p
}

type bench struct {
	bin          string
	against      string // empty: nothing
	crun         string // the same
	rounds, most int    // of what alternates
	parallels    []int  // of the part throughput
	pods         int
	quick        bool
	only         string
	perf, strace bool
	heap         string // empty: none
	report       *report
	disk         *rig.Disk
	raw          *raw
}

func run(ctx context.Context, b *bench, place string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("containers need root")
	}
	var err error
	if b.disk, err = rig.NewDisk(ctx, place); err != nil {
		return err
	}
	defer b.disk.Remove()
	if b.raw, err = newRaw(b.disk.Dir); err != nil {
		return err
	}
	defer b.raw.close()
	b.report.head(machineName(), place)
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"throughput", b.throughput},
		{"profile", b.profile},
		{"peers", b.peers},
		{"tools", b.tools},
		{"network", b.network},
		{"users", b.users},
		{"volumes", b.volumes},
		{"latency", b.latency},
		{"submit", b.submit},
		{"sleepers", b.sleepers},
		{"services", b.services},
		{"policies", b.policies},
		{"logs", b.logs},
		{"startup", b.startup},
		{"controller", b.controller},
		{"footprint", b.footprint},
		{"api", b.api},
		{"jobsets", b.jobSets},
		{"curve", b.curve},
		{"day", b.day},
		{"waiting", b.waiting},
		{"creates", b.creates},
		{"sizes", b.sizes},
	} {
		if !strings.Contains(part.name, b.only) {
			continue
		}
		if err := part.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

func machineName() string {
	kernel, _ := exec.Command("uname", "-sr").Output()
	model := "unknown processor"
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	return fmt.Sprintf("%d x %s, %s, %s", runtime.NumCPU(), model, strings.TrimSpace(string(kernel)), runtime.Version())
}

// report prints figures as they come.
type report struct{ machine bool }

func (r *report) head(machine, disk string) {
	if r.machine {
		fmt.Println("goos: linux\ngoarch:", runtime.GOARCH, "\npkg: github.com/jobd/jobd/testdata/bench")
		return
	}
	load, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(load), " ")
	fmt.Printf("Measured %s on %s, disk: %s, load average at the start: %s.\n", time.Now().Format(time.DateOnly), machine, disk, first)
}

func (r *report) table(title string, columns ...string) {
	if r.machine {
		return
	}
	fmt.Printf("\n### %s\n\n| %s |\n|%s\n", title, strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
}

func (r *report) row(cells ...string) {
	if !r.machine {
		fmt.Printf("| %s |\n", strings.Join(cells, " | "))
	}
}

// figure is one value for benchstat.
func (r *report) figure(name string, values []float64, unit string) {
	if !r.machine {
		return
	}
	for _, v := range values {
		fmt.Printf("Benchmark%s 1 %g %s\n", name, v, unit)
	}
}

func median(values []float64) float64 { return quantile(values, 0.5) }

func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// spread writes a median with its least and greatest value.
func spread(values []float64, format string) string {
	f := func(v float64) string { return fmt.Sprintf(format, v) }
	return fmt.Sprintf("%s (%s-%s)", f(median(values)), f(slices.Min(values)), f(slices.Max(values)))
}
