package nvidia

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jobd/jobd/runtime/nvidia/nvidiatest"
)

// TestRecorded: what a real card said, beside a process that computes on it.
func TestRecorded(t *testing.T) {
	answer, err := os.ReadFile("../../testdata/nvidia/query-all-busy.xml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(answer)
	if err != nil {
		t.Fatal(err)
	}
	want := &Report{Driver: "580.159.04", GPUs: []GPU{{
		Index: 0, Minor: 0, UUID: "GPU-edb329c6-265c-c5cf-e32b-4e53db108a01", Name: "NVIDIA H100 80GB HBM3", BusID: "00000000:00:06.0",
		Memory: 81559 << 20, Used: 1427 << 20, Utilization: 100, MemoryUtilization: 100,
		Temperature: got.GPUs[0].Temperature, Power: got.GPUs[0].Power,
		Processes: []Process{{PID: 1421, Name: "./gpuhold", Memory: 1418 << 20, GPU: Unknown, Compute: Unknown}},
	}}}
	if diff := cmp.Diff(want, got); diff != "" || got.GPUs[0].Temperature <= 0 || got.GPUs[0].Power <= 0 {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestFigures: what nvidia-smi writes in place of a figure is unknown, and nothing else than a figure is one.
func TestFigures(t *testing.T) {
	for _, none := range []string{
		"", "N/A", "[N/A]", "[Insufficient Permissions]", "Insufficient Permissions", "[Unknown Error]", "[GPU is lost]", "ERR!",
		"Requested functionality has been deprecated", "Not Found", "-5", "1e300", "NaN", "Inf", "12 bananas", "0x10",
	} {
		if n, p, s := number(none), percent(none), size(none); n != Unknown || p != Unknown || s != Unknown {
			t.Errorf("%q: %d, %d, %d", none, n, p, s)
		}
	}
	for text, want := range map[string]int64{"0 MiB": 0, "1427 MiB": 1427 << 20, " 12  ": 12 << 20, "1 MiB\n": 1 << 20} {
		if got := size(text); got != want {
			t.Errorf("size %q is %d, want %d", text, got, want)
		}
	}
	for text, want := range map[string]int{"100 %": 100, "0 %": 0, "7": 7, "101 %": Unknown} {
		if got := percent(text); got != want {
			t.Errorf("percent %q is %d, want %d", text, got, want)
		}
	}
}

// TestNamesOfProcesses: whatever a process calls itself, the answer has that process and all others.
func TestNamesOfProcesses(t *testing.T) {
	answer, err := os.ReadFile("../../testdata/nvidia/query-all-busy.xml")
	if err != nil {
		t.Fatal(err)
	}
	const more = "x</process_name></process_info><process_info><pid>1</pid><process_name>init"
	for name, want := range map[string]string{
		"a&b": "a&b", "a &amp; b": "a & b", "<b>": "<b>", "a</process_name>": "a</process_name>", "<!--": "<!--", "&nbsp;": "&nbsp;",
		more: more,
	} {
		got, err := Parse([]byte(strings.Replace(string(answer), "./gpuhold", name, 1)))
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if all := got.GPUs[0].Processes; len(all) != 1 || all[0].PID != 1421 || all[0].Name != want {
			t.Errorf("%q: %+v", name, all)
		}
	}
}

// TestProcesses: which processes a card has, and on which MIG device each of them is.
func TestProcesses(t *testing.T) {
	const head, tail = `<?xml version="1.0" ?><!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd"><nvidia_smi_log><gpu id="0">`, "</gpu></nvidia_smi_log>"
	one := func(inner string) string { return head + "<processes>" + inner + "</processes>" + tail }
	process := func(pid, kind, name, memory string) string {
		return "<process_info><pid>" + pid + "</pid><type>" + kind + "</type><process_name>" + name + "</process_name><used_memory>" +
			memory + "</used_memory></process_info>"
	}
	for name, c := range map[string]struct {
		answer string
		want   []Process
	}{
		"none":                        {one(""), nil},
		"not shown":                   {head + "<processes>N/A</processes>" + tail, nil},
		"hidden":                      {head + "<processes>[Insufficient Permissions]</processes>" + tail, nil},
		"computes":                    {one(process("7", "C", "python", "9000 MiB")), []Process{{7, "python", false, 9000 << 20, -1, -1}}},
		"draws":                       {one(process("7", "G", "/usr/lib/xorg/Xorg", "200 MiB")), []Process{{7, "/usr/lib/xorg/Xorg", true, 200 << 20, -1, -1}}},
		"does both":                   {one(process("7", "C+G", "gjs", "9 MiB")), []Process{{7, "gjs", true, 9 << 20, -1, -1}}},
		"client of MPS":               {one(process("7", "M+C", "a", "1 MiB")), []Process{{7, "a", false, 1 << 20, -1, -1}}},
		"of unknown memory":           {one(process("7", "C", "a", "N/A")), []Process{{7, "a", false, -1, -1, -1}}},
		"without a pid":               {one(process("N/A", "C", "a", "1 MiB") + process("0", "C", "a", "1 MiB") + process("-4", "C", "a", "1 MiB")), nil},
		"without a name":              {one(process("7", "C", "", "1 MiB")), []Process{{7, "", false, 1 << 20, -1, -1}}},
		"with commas and quotes":      {one(process("7", "C", `a, &quot;b&quot;, 5 MiB`, "1 MiB")), []Process{{7, `a, "b", 5 MiB`, false, 1 << 20, -1, -1}}},
		"with bytes that are no text": {one(process("7", "C", "a\x01\xff\x1bz", "1 MiB")), []Process{{7, "a???z", false, 1 << 20, -1, -1}}},
		"on a MIG device": {
			head + `<mig_devices><mig_device><index>0</index><gpu_instance_id>3</gpu_instance_id><compute_instance_id>0</compute_instance_id></mig_device></mig_devices>
<processes><process_info><gpu_instance_id>3</gpu_instance_id><compute_instance_id>0</compute_instance_id><pid>7</pid><type>C</type></process_info></processes>` + tail,
			[]Process{{7, "", false, -1, 3, 0}},
		},
	} {
		r, err := Parse([]byte(c.answer))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(c.want, r.GPUs[0].Processes); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

// TestMIG: the MIG devices of a card, whose own use is not told then.
func TestMIG(t *testing.T) {
	r, err := Parse([]byte(`<nvidia_smi_log><gpu id="0"><uuid>GPU-1</uuid><minor_number>2</minor_number><mig_mode><current_mig>Enabled</current_mig></mig_mode>
<mig_devices>
<mig_device><index>0</index><gpu_instance_id>1</gpu_instance_id><compute_instance_id>0</compute_instance_id><fb_memory_usage><total>19968 MiB</total><used>19 MiB</used></fb_memory_usage></mig_device>
<mig_device><index>1</index><gpu_instance_id>2</gpu_instance_id><compute_instance_id>0</compute_instance_id><fb_memory_usage><total>19968 MiB</total><used>N/A</used></fb_memory_usage></mig_device>
</mig_devices><utilization><gpu_util>N/A</gpu_util></utilization></gpu><gpu id="1"><minor_number>N/A</minor_number></gpu></nvidia_smi_log>`))
	if err != nil {
		t.Fatal(err)
	}
	g := r.GPUs[0]
	want := []Instance{{0, 1, 0, 19968 << 20, 19 << 20}, {1, 2, 0, 19968 << 20, Unknown}}
	if diff := cmp.Diff(want, g.Instances); diff != "" || g.Utilization != Unknown || g.Minor != 2 || r.GPUs[1].Minor != Unknown || r.GPUs[1].Index != 1 {
		t.Errorf("-want +got\n%s\n%+v", diff, r)
	}
}

// TestNoAnswer: what is no answer is an error.
func TestNoAnswer(t *testing.T) {
	for _, answer := range []string{
		"", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "<html></html>", "<nvidia_smi_log><gpu>",
		"<nvidia_smi_log>" + strings.Repeat("<gpu></gpu>", maxGPUs+1) + "</nvidia_smi_log>",
	} {
		if r, err := Parse([]byte(answer)); err == nil {
			t.Errorf("%.60q is read as %+v", answer, r)
		}
	}
}

func FuzzParse(f *testing.F) {
	recorded, err := os.ReadFile("../../testdata/nvidia/query-all-busy.xml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(recorded)
	f.Add([]byte(nvidiatest.Answer([]nvidiatest.Process{{PID: 4711, Type: "C+G", Name: "a<b>&", MiB: 9000, Instance: "1"}}, nil)))
	f.Fuzz(func(t *testing.T, answer []byte) {
		r, err := Parse(answer)
		if err != nil {
			return
		}
		for _, g := range r.GPUs {
			if g.Memory < Unknown || g.Used < Unknown || g.Utilization < Unknown || g.Utilization > 100 || g.Minor < Unknown || len(g.Name) > maxText {
				t.Errorf("%+v", g)
			}
			for _, p := range g.Processes {
				if p.PID <= 0 || p.Memory < Unknown || len(p.Name) > maxText || strings.Contains(p.Name, "\x1b") {
					t.Errorf("%+v", p)
				}
			}
		}
	})
}
