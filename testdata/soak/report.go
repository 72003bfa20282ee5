package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// The names of columns.
const (
	podsSoFar       = "pods"
	elapsed         = "s"
	rate            = "pods/s"
	firstLineP50    = "first line p50 ms"
	firstLineP99    = "p99 ms"
	daemonCPU       = "daemon CPU ms/pod"
	shardsCPU       = "shards CPU ms/pod"
	containersCPU   = "crun and container CPU ms/pod"
	daemonMemory    = "daemon RssAnon MB"
	liveHeap        = "live heap MB"
	shardsMemory    = "shards RssAnon MB"
	goroutines      = "goroutines"
	daemonFiles     = "daemon descriptors"
	daemonThreads   = "daemon threads"
	daemonMaps      = "daemon mappings"
	shards          = "shards"
	shardsFiles     = "shards descriptors"
	shardsThreads   = "shards threads"
	shardsMaps      = "shards mappings"
	shardsMounts    = "shards mounts"
	connections     = "API connections"
	rootFiles       = "files in root"
	stateFiles      = "files in state"
	layerFiles      = "files in layers for containers to come"
	unnamed         = "inodes without a name"
	diskUsed        = "disk MB"
	logsSize        = "container logs MB"
	cgroups         = "cgroups"
	mounts          = "mounts"
	namespaces      = "files of network namespaces"
	links           = "links"
	nftObjects      = "nft objects"
	loops           = "loop devices"
	processes       = "processes"
	database        = "database MB"
	databaseHistory = "of it for watchers MB"
	databaseFree    = "of it free MB"
	metricsSize     = "metrics kB"
	logged          = "daemon's log bytes/pod"
	machineCgroups  = "memory cgroups of the machine"
	machineSlab     = "unreclaimable slab of the machine MB"
)

// column is something that is measured.
type column struct {
	name string
	// The last tenth may be ratio times the first one, or slack more, whichever is more; of what falls, the other way
	// round. 0 is no limit: the column is for people.
	ratio, slack float64
	falls        bool // less is worse
	// What stays below bound is as documented, whether or not it still grows.
	bound float64
	// At rest there may be so many more at the end than at the start; negative: it is not compared.
	rest float64
}

// Time is compared generously: other work on the machine changes it more than the daemon does. What is counted must not
// rise by more than what happens to exist at the moment of measuring.
var columns = []column{
	{name: podsSoFar, rest: -1},
	{name: elapsed, rest: -1},
	{name: rate, ratio: 1.5, falls: true, rest: -1},
	{name: firstLineP50, ratio: 1.5, slack: 10, rest: -1},
	{name: firstLineP99, ratio: 2, slack: 50, rest: -1},
	{name: daemonCPU, ratio: 1.25, slack: 1, rest: -1},
	{name: shardsCPU, ratio: 1.25, slack: 1, rest: -1},
	{name: containersCPU, ratio: 1.5, slack: 2, rest: -1},
	{name: daemonMemory, ratio: 1.15, slack: 30, rest: -1}, // it collects garbage rarely while it is busy
	{name: liveHeap, ratio: 1.1, slack: 2, rest: 6},        // what is remembered of the last 1,024 objects comes after the first row
	{name: shardsMemory, ratio: 1.15, slack: 3, rest: -1},
	{name: goroutines, ratio: 1.1, slack: 8, rest: 8},
	{name: daemonFiles, ratio: 1.1, slack: 8, rest: 8},
	{name: daemonThreads, ratio: 1.2, slack: 5, rest: -1},
	{name: daemonMaps, ratio: 1.1, slack: 20, rest: -1},
	{name: shards, slack: 1, ratio: 1, rest: 1},
	{name: shardsFiles, ratio: 1.1, slack: 8, rest: 8},
	{name: shardsThreads, ratio: 1.2, slack: 8, rest: -1},
	{name: shardsMaps, ratio: 1.1, slack: 20, rest: -1},
	{name: shardsMounts, ratio: 1.1, slack: 8, rest: 8},
	{name: connections, ratio: 1.1, slack: 4, rest: 4},
	{name: rootFiles, ratio: 1.2, slack: 100, rest: 0},
	{name: stateFiles, ratio: 1.2, slack: 60, rest: 40},                         // shards keep places to mount at
	{name: layerFiles, ratio: 1.1, slack: 60, bound: 512*7 + 1024*10, rest: -1}, // as runtime/containerd has it
	{name: unnamed, ratio: 1.2, slack: 40, rest: 8},
	{name: diskUsed, ratio: 1.1, slack: 4, bound: documentedDatabase + 32, rest: -1},
	{name: logsSize, ratio: 1.3, slack: 1, rest: 0},
	{name: cgroups, ratio: 1.1, slack: 20, rest: 0},
	{name: mounts, ratio: 1.1, slack: 20, rest: 0},
	{name: namespaces, ratio: 1.1, slack: 10, rest: 0},
	{name: links, ratio: 1.1, slack: 10, rest: 0},
	{name: nftObjects, ratio: 1.1, slack: 10, rest: 0},
	{name: loops, ratio: 1, slack: 2, rest: 0},
	{name: processes, ratio: 1.1, slack: 10, rest: 1},
	{name: database, ratio: 1.1, slack: 4, bound: documentedDatabase, rest: -1},
	{name: databaseHistory, ratio: 1.1, slack: 4, bound: 70, rest: -1},
	{name: databaseFree, rest: -1},
	{name: metricsSize, ratio: 1.1, slack: 20, rest: 60},
	{name: logged, ratio: 1.1, slack: 50, rest: -1},
	{name: machineCgroups, rest: -1},
	{name: machineSlab, rest: -1},
}

// documentedDatabase is how large the database may become, in MB: 64 MiB for watchers, what they supersede while it is
// being cut, the reserve of 16 MiB, and what is stored now.
const documentedDatabase = 140

// tenths is into how many parts the rows are divided. The first is the warm-up.
const tenths = 10

// report compares the rows.
type report struct {
	parts                 []row // medians of the rows of each tenth
	restBefore, restAfter row
}

func newReport(rows []row, restBefore, restAfter row) *report {
	r := &report{restBefore: restBefore, restAfter: restAfter}
	for i := range tenths {
		r.parts = append(r.parts, summary(rows[len(rows)*i/tenths:len(rows)*(i+1)/tenths]))
	}
	return r
}

// summary returns the medians of rows, their latest number of pods and time, and quantiles of all their probes.
func summary(rows []row) row {
	sum := row{values: map[string]float64{}}
	for _, c := range columns {
		var values []float64
		for _, r := range rows {
			if v, ok := r.values[c.name]; ok {
				values = append(values, v)
			}
		}
		if len(values) > 0 {
			sum.values[c.name] = quantile(values, 0.5)
		}
	}
	for _, r := range rows {
		sum.probes = append(sum.probes, r.probes...)
	}
	last := rows[len(rows)-1]
	sum.values[podsSoFar], sum.values[elapsed] = last.values[podsSoFar], last.values[elapsed]
	if len(sum.probes) > 0 {
		sum.values[firstLineP50], sum.values[firstLineP99] = quantile(sum.probes, 0.5), quantile(sum.probes, 0.99)
	}
	return sum
}

func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// grows returns an error if the column has become worse.
func (c column) grows(first, last float64) error {
	if c.ratio == 0 || c.bound > 0 && last <= c.bound {
		return nil
	}
	worse := last > max(first*c.ratio, first+c.slack)
	if c.falls {
		worse = last < min(first/c.ratio, first-c.slack)
	}
	if !worse {
		return nil
	}
	return fmt.Errorf("%s: %s in the last tenth, %s in the first after the warm-up", c.name, number(last), number(first))
}

// left returns an error if there is more at rest than there was.
func (c column) left(before, after float64) error {
	if c.rest < 0 || after <= before+c.rest {
		return nil
	}
	return fmt.Errorf("%s: %s are left when everything is deleted, %s after the first row", c.name, number(after), number(before))
}

// verdict returns what grows, or nil.
func (r *report) verdict() error {
	var worse []error
	first, last := r.parts[1], r.parts[tenths-1]
	for _, c := range columns {
		if then, ok := first.values[c.name]; ok {
			if now, ok := last.values[c.name]; ok {
				worse = append(worse, c.grows(then, now))
			}
		}
		if now, ok := r.restAfter.values[c.name]; ok {
			worse = append(worse, c.left(r.restBefore.values[c.name], now))
		}
	}
	return errors.Join(worse...)
}

// markdown writes a line for each column, with its median in each tenth.
func (r *report) markdown() string {
	var b strings.Builder
	b.WriteString("\n| tenth |")
	for i := range r.parts {
		fmt.Fprintf(&b, " %d |", i+1)
	}
	b.WriteString(" last / second | at rest before | and after |\n|" + strings.Repeat("---|", tenths+4) + "\n")
	for _, c := range columns {
		fmt.Fprintf(&b, "| %s |", c.name)
		for _, p := range r.parts {
			fmt.Fprintf(&b, " %s |", cell(p, c.name))
		}
		change := "-"
		then, now := r.parts[1].values[c.name], r.parts[tenths-1].values[c.name]
		if then > 0 && now > 0 && c.name != podsSoFar && c.name != elapsed {
			change = fmt.Sprintf("%.2f", now/then)
		}
		before, after := "-", "-"
		if c.rest >= 0 {
			before, after = cell(r.restBefore, c.name), cell(r.restAfter, c.name)
		}
		fmt.Fprintf(&b, " %s | %s | %s |\n", change, before, after)
	}
	return b.String()
}

func cell(r row, name string) string {
	v, ok := r.values[name]
	if !ok {
		return "-"
	}
	return number(v)
}

// number writes a value with as many digits as are of use.
func number(v float64) string {
	if v == math.Trunc(v) || math.Abs(v) >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// String is a line for people who watch.
func (r row) String() string {
	var cells []string
	for _, name := range []string{
		podsSoFar, elapsed, rate, firstLineP50, daemonCPU, daemonMemory, liveHeap, shardsMemory, goroutines, daemonFiles,
		rootFiles, stateFiles, cgroups, mounts, database,
	} {
		cells = append(cells, cell(r, name)+" "+name)
	}
	return strings.Join(cells, ", ")
}

func tsvHead() string {
	var names []string
	for _, c := range columns {
		names = append(names, c.name)
	}
	return strings.Join(names, "\t") + "\n"
}

func (r row) tsv() string {
	var cells []string
	for _, c := range columns {
		cells = append(cells, cell(r, c.name))
	}
	return strings.Join(cells, "\t") + "\n"
}
