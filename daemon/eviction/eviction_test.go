package eviction

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

func TestThresholds(t *testing.T) {
	plenty := Supply{Capacity: Size{1000 << 20, 1000}, Available: Size{1000 << 20, 1000}}
	left := func(bytes, inodes int64) Supply {
		d := plenty
		d.Available = Size{bytes, inodes}
		return d
	}
	for _, c := range []struct {
		rule, setting string
		disk          Supply
		short         Signal // empty: none is met
		near          bool
		refused       string
	}{
		{rule: "without any there is never pressure", setting: "", disk: left(0, 0)},
		{rule: "room enough", setting: "nodefs.available<10%", disk: left(200<<20, 0)},
		{rule: "less than twice what must be left is near", setting: "nodefs.available<10%", disk: left(200<<20-1, 0), near: true},
		{rule: "what must be left is enough", setting: "nodefs.available<10%", disk: left(100<<20, 0), near: true},
		{rule: "less is not", setting: "nodefs.available<10%", disk: left(100<<20-1, 0), short: nodeFsAvailable, near: true},
		{rule: "an amount", setting: " nodefs.available < 1Mi ", disk: left(1<<20-1, 0), short: nodeFsAvailable, near: true},
		{rule: "inodes", setting: "nodefs.available<1%,nodefs.inodesFree<5%", disk: left(100<<20, 49), short: nodeFsInodesFree, near: true},
		{rule: "a number of inodes", setting: "nodefs.inodesFree<100", disk: left(0, 99), short: nodeFsInodesFree, near: true},
		{rule: "a file system without a limit of inodes", setting: "nodefs.inodesFree<5%", disk: Supply{Capacity: Size{Bytes: 1 << 30}}},
		{rule: "0 is never", setting: "nodefs.available<0%", disk: left(0, 0)},
		{rule: "memory", setting: "nodefs.inodesFree<5%,memory.available<100Mi", disk: left(100<<20-1, 0), short: memoryAvailable, near: true},
		{rule: "another signal", setting: "pid.available<100", refused: "pid.available"},
		{rule: "one twice", setting: "nodefs.available<1%,nodefs.available<2%", refused: "twice"},
		{rule: "no comparison", setting: "nodefs.available", refused: "not like"},
		{rule: "no amount", setting: "nodefs.available<few", refused: "few"},
		{rule: "below nothing", setting: "nodefs.available<-1", refused: "-1"},
		{rule: "all of it", setting: "nodefs.available<100%", refused: "100%"},
		{rule: "no number", setting: "nodefs.available<NaN%", refused: "NaN%"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			all, err := Parse(c.setting)
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("%v, want it to name %s", err, c.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			these := all.Disk
			if c.short == memoryAvailable {
				these = all.Memory
			}
			if short, _ := Short(these, c.disk); short.Signal != c.short {
				t.Errorf("short of %q, want %q", short.Signal, c.short)
			}
			if near := Near(these, c.disk); near != c.near {
				t.Errorf("near: %t", near)
			}
		})
	}
}

func TestFirst(t *testing.T) {
	use := func(name, spec string, containers map[string]Size, volumes Size) Use {
		p := &corev1.Pod{}
		if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
			t.Fatal(err)
		}
		p.Name, p.UID = name, types.UID(name)
		return Use{Pod: p, Containers: containers, Volumes: volumes}
	}
	const plain, asks, high, critical = `containers: [{name: c}]`, `containers: [{name: c, resources: {requests: {ephemeral-storage: 10Mi}}}]`,
		`{priority: 5, containers: [{name: c}]}`, `{priority: 2000000000, containers: [{name: c}]}`
	partly := func(u Use) Use {
		u.Partly = true
		return u
	}
	wrote := func(mb, inodes int64) map[string]Size { return map[string]Size{"c": {mb << 20, inodes}} }
	bytes, inodes := Shortage{nodeFsAvailable, 100 << 20, 50 << 20}, Shortage{nodeFsInodesFree, 100, 50}
	memory := Shortage{memoryAvailable, 100 << 20, 50 << 20}
	for _, c := range []struct {
		rule      string
		short     Shortage
		pods      []Use
		want, why string
	}{
		{"nobody is here", bytes, nil, "", ""},
		{"one whose end helps nobody stays", bytes, []Use{use("a", plain, wrote(0, 5), Size{})}, "", ""},
		{"who takes most goes first", bytes, []Use{
			use("a", plain, wrote(5, 5), Size{}), use("b", plain, wrote(6, 5), Size{}), use("c", plain, wrote(4, 5), Size{}),
		}, "b",
			"The node was low on resource: ephemeral-storage. Threshold quantity: 100Mi, available: 50Mi. Container c was using " +
				"6Mi, request is 0, has larger consumption of ephemeral-storage. "},
		{"volumes count", bytes, []Use{use("a", plain, wrote(5, 5), Size{}), use("b", plain, nil, Size{Bytes: 6 << 20})}, "b",
			"The node was low on resource: ephemeral-storage. Threshold quantity: 100Mi, available: 50Mi. "},
		{"who is within its request goes later", bytes, []Use{use("a", asks, wrote(10, 5), Size{}), use("b", plain, wrote(2, 5), Size{})}, "b", "request is 0"},
		{"who has exceeded it goes for what is beyond", bytes, []Use{use("a", asks, wrote(15, 5), Size{}), use("b", plain, wrote(6, 5), Size{})}, "b", ""},
		{"a lower priority goes first", bytes, []Use{use("a", high, wrote(50, 5), Size{}), use("b", plain, wrote(2, 5), Size{})}, "b", ""},
		{"but not if it alone is within its request", bytes, []Use{use("a", high, wrote(50, 5), Size{}), use("b", asks, wrote(2, 5), Size{})}, "a", ""},
		{"a critical one never goes", bytes, []Use{use("a", critical, wrote(50, 5), Size{})}, "", ""},
		{"one that could not be measured counts as one that uses most", bytes, []Use{
			use("a", plain, wrote(50, 5), Size{}), partly(use("b", asks, wrote(0, 5), Size{})), partly(use("c", asks, wrote(1, 5), Size{})),
		}, "c", "What the pod has could not be counted in time."},
		{"but not before a lower priority", bytes, []Use{use("a", plain, wrote(50, 5), Size{}), partly(use("b", high, nil, Size{}))}, "a", ""},
		{"nor if it is critical", bytes, []Use{partly(use("a", critical, wrote(50, 5), Size{}))}, "", ""},
		{"inodes", inodes, []Use{use("a", plain, wrote(50, 5), Size{}), use("b", plain, wrote(2, 2000), Size{})}, "b",
			"The node was low on resource: inodes. Threshold quantity: 100, available: 50. Container c was using 2k, request is " +
				"0, has larger consumption of inodes. "},
		{"memory", memory, []Use{
			use("a", plain, wrote(5, 0), Size{}), use("b", `containers: [{name: c, resources: {requests: {memory: 20Mi}}}]`, wrote(25, 0), Size{}),
			use("c", plain, nil, Size{Bytes: 6 << 20}),
		}, "c",
			"The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. "},
	} {
		t.Run(c.rule, func(t *testing.T) {
			got := ""
			p, why := First(c.pods, c.short)
			if p != nil {
				got = p.Name
			}
			if got != c.want || !strings.Contains(why, c.why) {
				t.Errorf("%q goes: %s\nwant %q: %s", got, why, c.want, c.why)
			}
		})
	}
}

// The condition comes at once and goes only when a threshold has not been met for a while.
func TestPressureLasts(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	var p Pressure
	for _, c := range []struct {
		second      int
		short       bool
		on, changed bool
	}{
		{0, false, false, false}, {1, true, true, true}, {9, true, true, false}, {10, false, true, false},
		{18, false, true, false}, {19, false, false, true}, {20, false, false, false}, {21, true, true, true},
	} {
		if changed := p.See(c.short, at(c.second), 10*time.Second); p.On != c.on || changed != c.changed {
			t.Errorf("after %d s: on %t, changed %t", c.second, p.On, changed)
		}
	}
	found := Pressure{On: true}
	if found.See(false, at(0), 10*time.Second); !found.On {
		t.Error("what an older run has seen is forgotten at once")
	}
	if found.See(false, at(10), 10*time.Second); found.On {
		t.Error("what an older run has seen lasts for ever")
	}
}
