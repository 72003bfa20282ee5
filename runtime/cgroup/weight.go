package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Weight is how much of something a group gets beside others that want it too: from 1 to 10000, as cgroup v2 has it. A group
// without one of its own has 100.
type Weight struct {
	Value int64 // 0: the default
	// Idle: it gets only what no other wants.
	Idle bool
}

const (
	defaultWeight = 100
	maxWeight     = 10000
)

// ParseWeight parses "idle", a number from 1 to 10000, or an empty text, which is the default.
func ParseWeight(text string) (Weight, error) {
	switch text {
	case "":
		return Weight{}, nil
	case "idle":
		return Weight{Idle: true}, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > maxWeight {
		return Weight{}, fmt.Errorf("%q is neither idle nor a number from 1 to %d", text, maxWeight)
	}
	return Weight{Value: n}, nil
}

// value returns the weight as a number.
func (w Weight) value() int64 {
	switch {
	case w.Idle:
		return 1
	case w.Value == 0:
		return defaultWeight
	}
	return w.Value
}

// between converts a weight to another range with its own default.
func (w Weight) between(least, usual, most int64) int64 {
	v := w.value()
	if v <= defaultWeight {
		return least + (v-1)*(usual-least)/(defaultWeight-1)
	}
	return usual + (v-defaultWeight)*(most-usual)/(maxWeight-defaultWeight)
}

// WeighCPU gives a group a share of the processors.
func (h Hierarchies) WeighCPU(group string, w Weight) error {
	return h.weigh(group, "cpu", w, func(v2 bool) []weighing {
		idle := "0"
		if w.Idle {
			idle = "1"
		}
		number := file{"cpu.weight", strconv.FormatInt(w.value(), 10)}
		if !v2 {
			number = file{"cpu.shares", strconv.FormatInt(max(2, w.value()*1024/defaultWeight), 10)}
		}
		all := []weighing{{file: file{"cpu.idle", idle}, optional: true}, {file: number}}
		if w.Idle { // the kernel refuses a weight for a group that is idle
			slices.Reverse(all)
			all[0].optional = true
		}
		return all
	})
}

// WeighIO gives a group a share of the disks. Most hosts have no scheduler for that, and most of those that have it need BFQ.
func (h Hierarchies) WeighIO(group string, w Weight) error {
	return h.weigh(group, "io", w, func(v2 bool) []weighing {
		class := "no-change"
		if w.Idle {
			class = "idle"
		}
		number := func(name string, n int64) weighing {
			return weighing{file: file{name, strconv.FormatInt(n, 10)}, optional: true}
		}
		if v2 {
			all := []weighing{
				number("io.weight", w.value()), number("io.bfq.weight", w.between(1, 100, 1000)), {file: file{"io.prio.class", class}, optional: true},
			}
			all[0].file.value = "default " + all[0].file.value
			return all
		}
		return []weighing{
			number("blkio.bfq.weight", w.between(1, 100, 1000)), number("blkio.weight", w.between(10, 500, 1000)),
			{file: file{"blkio.prio.class", class}, optional: true},
		}
	})
}

// weighing is one file of a weight. One that is optional need not exist, if another one does.
type weighing struct {
	file
	optional bool
}

// ErrNoWeight says that the host has nothing that would honour a weight.
var ErrNoWeight = errors.New("the control groups of this host have none")

// weigh writes the files of a weight, where they are not as they are to be. For the default no group is made.
func (h Hierarchies) weigh(group, controller string, w Weight, files func(v2 bool) []weighing) error {
	name := controller
	one, ok := h.of(controller)
	if !ok && controller == "io" {
		name = "blkio"
		one, ok = h.of(name)
	}
	if !ok {
		if w == (Weight{}) {
			return nil
		}
		return ErrNoWeight
	}
	dir := one.dir(group)
	if w != (Weight{}) {
		if one.v2 {
			if _, err := enable(one.mount, group, name); err != nil {
				return err
			}
		} else if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	found := false
	for _, f := range files(one.v2) {
		path := filepath.Join(dir, f.name)
		was, err := os.ReadFile(path)
		if err != nil {
			if !f.optional && w != (Weight{}) {
				return err
			}
			continue
		}
		found = true
		if strings.TrimSpace(string(was)) == f.value {
			continue
		}
		if err := os.WriteFile(path, []byte(f.value), 0); err != nil && !f.optional {
			return err
		}
	}
	if !found && w != (Weight{}) {
		return ErrNoWeight
	}
	return nil
}
