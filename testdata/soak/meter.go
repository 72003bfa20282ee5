package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/layout"
)

// row is what was measured after a part of the pods.
type row struct {
	values map[string]float64 // by the names of columns
	probes []float64          // latencies in ms
}

// meter measures what a daemon, its shards and its pods hold of the machine.
type meter struct {
	daemon *daemon
	out    string
	begin  time.Time
	last   counters
}

// counters only ever rise; rows have what they rose by.
type counters struct {
	pods              float64 // that the daemon has created
	daemon            float64 // CPU seconds
	shards, container float64 // CPU seconds of shards, and of what they started
	logBytes          float64
}

func newMeter(d *daemon, out string) *meter { return &meter{daemon: d, out: out, begin: time.Now()} }

// skip leaves out of the next row what has happened since the last one.
func (m *meter) skip() {
	if now, _, err := m.counters(context.Background()); err == nil {
		m.last = now
	}
}

func (m *meter) counters(ctx context.Context) (c counters, metrics map[string]float64, err error) {
	text, err := m.daemon.Get(ctx, "/metrics")
	if err != nil {
		return c, nil, err
	}
	metrics = readMetrics(string(text))
	c.pods = metrics["job_controller_job_pods_creation_total"]
	c.daemon, _ = cpuTime(m.daemon.PID())
	for _, pid := range m.daemon.Shards() {
		own, children := cpuTime(pid)
		c.shards += own
		c.container += children
	}
	c.logBytes = fileSize(m.daemon.log.Name())
	return c, metrics, nil
}

// read measures everything. took is how long the pods of the row ran.
func (m *meter) read(ctx context.Context, took time.Duration) (row, error) {
	d := m.daemon
	now, _, err := m.counters(ctx)
	if err != nil {
		return row{}, err
	}
	before := m.last
	m.last = now
	pods := now.pods - before.pods
	v := map[string]float64{podsSoFar: now.pods, elapsed: time.Since(m.begin).Seconds()}
	if pods > 0 && took > 0 {
		v[rate] = pods / took.Seconds()
		v[daemonCPU] = (now.daemon - before.daemon) / pods * 1000
		v[shardsCPU] = (now.shards - before.shards) / pods * 1000
		v[containersCPU] = (now.container - before.container) / pods * 1000
		v[logged] = (now.logBytes - before.logBytes) / pods
	}
	// The garbage of the row would be measured with the rest. What collecting it costs is left out by skip.
	if _, err := d.Get(ctx, "/debug/pprof/heap?gc=1"); err != nil {
		return row{}, err
	}
	text, err := d.Get(ctx, "/metrics")
	if err != nil {
		return row{}, err
	}
	metrics := readMetrics(string(text))
	v[metricsSize] = float64(len(text)) / 1000
	v[goroutines] = metrics["go_goroutines"]
	v[liveHeap] = mega(metrics["go_gc_heap_live_bytes"])
	v[database] = mega(metrics["jobd_store_bytes"])
	v[databaseHistory] = mega(metrics["jobd_store_history_bytes"])
	v[connections] = metrics["jobd_api_connections"]

	daemonHas, pids := processHas(d.PID()), map[int]bool{d.PID(): true}
	v[daemonMemory], v[daemonFiles] = daemonHas.anon, daemonHas.files
	v[daemonThreads], v[daemonMaps] = daemonHas.threads, daemonHas.maps
	v[mounts] = float64(linesWith(d.PID(), "mountinfo", d.Root, d.State))
	v[namespaces] = countFiles(layout.State(d.State).Network()) + countFiles(layout.State(d.State).PreparedNetworks())
	for _, pid := range d.Shards() {
		pids[pid] = true
		has := processHas(pid)
		v[shardsMemory] += has.anon
		v[shardsFiles] += has.files
		v[shardsThreads] += has.threads
		v[shardsMaps] += has.maps
		v[shardsMounts] += float64(linesWith(pid, "mountinfo", d.Root, d.State))
	}
	v[shards] = float64(len(pids) - 1)

	snapshots := filepath.Join(layout.Root(d.Root).Containerd(), "io.containerd.snapshotter.v1.overlayfs")
	v[layerFiles] = countFiles(filepath.Join(snapshots, "containers"))
	v[rootFiles], v[logsSize] = countFiles(d.Root)-v[layerFiles], megabytesBelow(layout.Root(d.Root).Logs())
	v[stateFiles] = countFiles(d.State)
	var disk unix.Statfs_t
	if err := unix.Statfs(d.Root, &disk); err != nil {
		return row{}, err
	}
	v[unnamed] = float64(disk.Files-disk.Ffree) - v[rootFiles] - v[layerFiles]
	v[diskUsed] = mega(float64(disk.Blocks-disk.Bfree) * float64(disk.Bsize))

	v[cgroups] = float64(d.cgroups(pids))
	v[processes] = float64(len(pids) + zombies(pids))
	v[links] = float64(d.links())
	v[nftObjects], err = d.nftables()
	v[loops] = float64(d.loops())
	v[machineCgroups], v[machineSlab] = machineHas()
	return row{values: v}, err
}

func mega(bytes float64) float64 { return bytes / 1e6 }

// readMetrics returns the sum of each metric over all its labels.
func readMetrics(text string) map[string]float64 {
	sums := map[string]float64{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		end := strings.LastIndexByte(line, ' ')
		if end < 0 {
			continue
		}
		name, _, _ := strings.Cut(line[:end], "{")
		value, err := strconv.ParseFloat(strings.TrimSpace(line[end:]), 64)
		if err == nil {
			sums[name] += value
		}
	}
	return sums
}

// cpuTime returns the CPU seconds of a process, and of its children that have ended.
func cpuTime(pid int) (own, children float64) {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if _, rest, ok := bytes.Cut(stat, []byte(") ")); ok {
		fields := strings.Fields(string(rest))
		for i, to := range map[int]*float64{11: &own, 12: &own, 13: &children, 14: &children} {
			ticks, _ := strconv.ParseFloat(fields[i], 64)
			*to += ticks / 100
		}
	}
	return own, children
}

type has struct{ anon, files, threads, maps float64 }

// processHas returns the anonymous memory of a process in MB, and how many descriptors, threads and mappings it has.
func processHas(pid int) (h has) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	status, _ := os.ReadFile(dir + "status")
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		n, _ := strconv.ParseFloat(fields[1], 64)
		switch fields[0] {
		case "RssAnon:":
			h.anon = mega(n * 1024)
		case "Threads:":
			h.threads = n
		}
	}
	open, _ := os.ReadDir(dir + "fd")
	h.files = float64(len(open))
	h.maps = float64(linesWith(pid, "maps", ""))
	return h
}

// linesWith counts the lines of a file of a process that contain one of these strings.
func linesWith(pid int, file string, any ...string) (n int) {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	for line := range strings.Lines(string(content)) {
		for _, one := range any {
			if strings.Contains(line, one) {
				n++
				break
			}
		}
	}
	return n
}

func fileSize(path string) float64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return float64(info.Size())
}

// countFiles counts all that is below a directory. What comes and goes meanwhile counts or does not.
func countFiles(dir string) (n float64) {
	_ = filepath.WalkDir(dir, func(string, fs.DirEntry, error) error {
		n++
		return nil
	})
	return n
}

func megabytesBelow(dir string) (mb float64) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			mb += mega(fileSize(path))
		}
		return nil
	})
	return mb
}

// cgroups counts the daemon's cgroups in all hierarchies, and adds the processes in them.
func (d *daemon) cgroups(pids map[int]bool) (n int) {
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() || !strings.Contains(path, "/"+d.name()) {
			return nil
		}
		n++
		processes, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for _, field := range strings.Fields(string(processes)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids[pid] = true
			}
		}
		return nil
	})
	return n
}

// zombies counts the ended children of processes that nobody has waited for.
func zombies(of map[int]bool) (n int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, _ := os.ReadFile(path)
		if _, rest, ok := bytes.Cut(stat, []byte(") Z ")); ok {
			parent, _, _ := strings.Cut(string(rest), " ")
			if pid, err := strconv.Atoi(parent); err == nil && of[pid] {
				n++
			}
		}
	}
	return n
}

// links counts the daemon's bridge and what hangs on it.
func (d *daemon) links() (n int) {
	links, _ := filepath.Glob("/sys/class/net/*")
	for _, l := range links {
		master, _ := os.Readlink(filepath.Join(l, "master"))
		if filepath.Base(l) == d.name() || filepath.Base(master) == d.name() {
			n++
		}
	}
	return n
}

// nftables counts the chains, rules, sets and elements of sets in the daemon's tables.
func (d *daemon) nftables() (float64, error) {
	conn, err := nftables.New()
	if err != nil {
		return 0, err
	}
	tables, err := conn.ListTables()
	if err != nil {
		return 0, err
	}
	n := 0
	for _, table := range tables {
		if table.Name != d.name() {
			continue
		}
		chains, err := conn.ListChainsOfTableFamily(table.Family)
		if err != nil {
			return 0, err
		}
		for _, chain := range chains {
			if chain.Table.Name == table.Name {
				rules, err := conn.GetRules(table, chain)
				if err != nil {
					return 0, err
				}
				n += 1 + len(rules)
			}
		}
		sets, err := conn.GetSets(table)
		if err != nil {
			return 0, err
		}
		for _, set := range sets {
			elements, err := conn.GetSetElements(set)
			if err != nil {
				return 0, err
			}
			n += 1 + len(elements)
		}
	}
	return float64(n), nil
}

// loops counts the loop devices of volumes.
func (d *daemon) loops() (n int) {
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, path := range files {
		if file, _ := os.ReadFile(path); bytes.HasPrefix(file, []byte(d.Root)) {
			n++
		}
	}
	return n
}

// machineHas returns how many cgroups of memory there are, those included that are removed and not yet forgotten, and the
// MB that the kernel cannot get back of its own objects. Others work on the machine too.
func machineHas() (cgroups, slab float64) {
	table, _ := os.ReadFile("/proc/cgroups")
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "memory" {
			cgroups, _ = strconv.ParseFloat(fields[2], 64)
		}
	}
	info, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(info)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "SUnreclaim:" {
			kb, _ := strconv.ParseFloat(fields[1], 64)
			slab = mega(kb * 1024)
		}
	}
	return cgroups, slab
}
