package nvidia

import (
	"os"
	"os/user"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jobd/jobd/runtime/cgroup"
)

// Owner is whose a process is.
type Owner struct {
	// Gone: there is no such process any more. The driver may still be giving back what it had.
	Gone bool
	// Pod is the UID of the pod of this jobd that it belongs to; empty for none.
	Pod string
	// User is the name of its user, or the number of one without a name; empty if it belongs to a pod.
	User string
	// Started tells it from another process that has its pid later.
	Started string
}

// Owners finds out whose processes are.
type Owners struct {
	// Proc is where procfs is, Parent the control group that all pods of this jobd are in, such as /jobd.
	Proc, Parent string
}

// Of returns whose a process is. A process in a PID namespace of its own has its pid of this one here, and in its control group it
// stays in whatever namespaces it makes.
func (o Owners) Of(pid int) Owner {
	dir := filepath.Join(o.Proc, strconv.Itoa(pid))
	groups, err := os.ReadFile(filepath.Join(dir, "cgroup"))
	status, errStatus := os.ReadFile(filepath.Join(dir, "status"))
	stat, errStat := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil || errStatus != nil || errStat != nil {
		return Owner{Gone: true}
	}
	if strings.Contains(string(status), "\nState:\tZ") { // it has ended, and its parent does not ask
		return Owner{Gone: true}
	}
	of := Owner{Pod: podOf(string(groups), o.Parent), Started: startOf(string(stat))}
	if of.Pod == "" {
		of.User = userOf(string(status))
	}
	return of
}

// podOf finds the UID of a pod in /proc/PID/cgroup: /jobd/UID.CONTAINER.ATTEMPT, or /jobd/pod-UID/UID.CONTAINER.ATTEMPT in a pod with limits
// of its own.
func podOf(groups, parent string) string {
	for line := range strings.Lines(groups) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // HIERARCHY:CONTROLLERS:PATH
		if len(parts) < 3 {
			continue
		}
		group := path.Clean(strings.TrimSuffix(parts[2], " (deleted)"))
		if rest, ok := strings.CutPrefix(group, parent+"/"); ok {
			first, _, _ := strings.Cut(rest, "/")
			uid, _, _ := strings.Cut(strings.TrimPrefix(first, cgroup.PodPrefix), ".")
			return uid
		}
	}
	return ""
}

func userOf(status string) string {
	_, rest, _ := strings.Cut(status, "\nUid:\t")
	uid, _, _ := strings.Cut(rest, "\t")
	if u, err := user.LookupId(uid); err == nil {
		return u.Username
	}
	return uid
}

// startOf returns when a process was started, field 22 of /proc/PID/stat, in which the name may contain anything.
func startOf(stat string) string {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}
