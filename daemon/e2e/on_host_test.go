package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/nftables"

	"github.com/jobd/jobd/internal/layout"
)

// name returns what the daemon's cgroups, bridge and nft tables are called.
func (d *daemon) name() string {
	sum := sha256.Sum256([]byte(d.root))
	return "jobd-" + hex.EncodeToString(sum[:4])
}

// onHost lists all that a daemon has on the host: mounts, cgroups and how many processes run in them, interfaces, nft
// rules, loop devices, files. It leaves out what may change while nothing runs: directories and networks that are kept for future
// containers, and databases.
func (d *daemon) onHost() []string {
	d.t.Helper()
	var found []string
	see := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }

	prepared, preparedLinks := d.prepared()
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); prepared != "" && strings.HasPrefix(fields[4], prepared) {
			continue
		} else if strings.HasPrefix(fields[4], d.root) || strings.HasPrefix(fields[4], d.state) {
			see("mount %s", fields[4])
		}
	}

	name := d.name()
	cgroups := map[string]int{}
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		_, below, ok := strings.Cut(path, "/"+name)
		if err != nil || !ok || !e.IsDir() {
			return nil
		}
		processes, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		cgroups[below] = max(cgroups[below], strings.Count(string(processes), "\n"))
		return nil
	})
	for below, processes := range cgroups {
		see("cgroup %s with %d processes", name+below, processes)
	}

	links, _ := filepath.Glob("/sys/class/net/*")
	for _, l := range links {
		master, _ := os.Readlink(filepath.Join(l, "master"))
		if slices.Contains(preparedLinks, filepath.Base(l)) {
			continue
		}
		if filepath.Base(l) == name || filepath.Base(master) == name {
			see("interface %s", filepath.Base(l))
		}
	}
	if conn, err := nftables.New(); err == nil {
		chains, _ := conn.ListChainsOfTableFamily(nftables.TableFamilyIPv4)
		for _, chain := range chains {
			if chain.Table.Name == name {
				rules, _ := conn.GetRules(chain.Table, chain)
				see("nft chain %s with %d rules", chain.Name, len(rules))
			}
		}
	}

	devices := loopDevices()
	for device, file := range devices {
		if strings.HasPrefix(file, d.root) || strings.HasPrefix(devices[file], d.root) {
			see("loop device %s of %s", device, file)
		}
	}

	for _, dir := range []string{d.root, d.state} {
		_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			for _, kept := range []string{"/containerd/", "/seccomp/", "/places", "/jobd.db", "/ns-prepared/"} {
				if strings.Contains(path, kept) {
					return nil
				}
			}
			if filepath.Dir(path) != dir && e.Name() != "runtime" { // these stay once they are created
				see("file %s", path)
			}
			return nil
		})
	}
	slices.Sort(found)
	return found
}

// loopDevices returns what each loop device of the host shows.
func loopDevices() map[string]string {
	shown := map[string]string{}
	paths, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, path := range paths {
		if file, err := os.ReadFile(path); err == nil {
			shown["/dev/"+filepath.Base(filepath.Dir(filepath.Dir(path)))] = strings.TrimSuffix(string(file), "\n")
		}
	}
	return shown
}

// prepared returns the directory of the networks that are ready for pods to come, and the names of their links. The
// directory is empty if there are more than there should be.
func (d *daemon) prepared() (dir string, links []string) {
	dir = layout.State(d.state).PreparedNetworks() + "/"
	records, _ := filepath.Glob(dir + "*/network.json")
	if len(records) > 8 {
		return "", nil
	}
	for _, path := range records {
		var record struct {
			Address netip.Addr `json:"address"`
		}
		if data, err := os.ReadFile(path); err == nil && json.Unmarshal(data, &record) == nil && record.Address.IsValid() {
			links = append(links, fmt.Sprintf("jobd%x", record.Address.AsSlice()))
		}
	}
	return dir, links
}
