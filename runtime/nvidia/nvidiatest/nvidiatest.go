// Package nvidiatest has an nvidia-smi of a test's own, and writes what it says.
package nvidiatest

import (
	_ "embed"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jobd/jobd/internal/files"
)

// Process is a process that uses a card.
type Process struct {
	PID      int
	Type     string // C, G or C+G
	Name     string
	MiB      int
	Instance string // the id of its GPU instance; empty for none
}

// SMI is an nvidia-smi.
type SMI struct {
	t *testing.T
	// Path is that of the program.
	Path string
}

//go:embed nvidia-smi
var script []byte

// New makes one that knows as many cards, which nobody uses.
func New(t *testing.T, cards int) *SMI {
	t.Helper()
	s := &SMI{t, filepath.Join(t.TempDir(), "nvidia-smi")}
	if err := os.WriteFile(s.Path, script, 0o755); err != nil {
		t.Fatal(err)
	}
	s.Use(make([][]Process, cards)...)
	return s
}

// Use makes it say which processes use each card. A card is busy for as many percent of the time as processes use it times ten.
func (s *SMI) Use(cards ...[]Process) {
	s.t.Helper()
	s.Say(Answer(cards...))
}

// Say makes it say something.
func (s *SMI) Say(answer string) { s.write("answer", answer) }

// Fail makes it say something and fail with an exit code; 0: it does not fail any more.
func (s *SMI) Fail(code int, says string) {
	if s.Say(says); code != 0 {
		s.write("code", strconv.Itoa(code))
		return
	}
	_ = os.Remove(filepath.Join(filepath.Dir(s.Path), "code"))
}

// Hang makes it hang, or not any more.
func (s *SMI) Hang(hang bool) {
	if hang {
		s.write("hang", "")
		return
	}
	_ = os.Remove(filepath.Join(filepath.Dir(s.Path), "hang"))
}

func (s *SMI) write(name, content string) {
	s.t.Helper()
	if err := files.Replace(filepath.Join(filepath.Dir(s.Path), name), []byte(content), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// UUID returns that of a card.
func UUID(card int) string { return fmt.Sprintf("GPU-5cb0e3d8-1b7f-3f0c-0c6e-0e5a4b1f7a%02d", card) }

// Answer returns what nvidia-smi -q -x says of cards that these processes use.
func Answer(cards ...[]Process) string {
	var out strings.Builder
	out.WriteString("<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v13.dtd\">\n" +
		"<nvidia_smi_log><driver_version>580.159.04</driver_version>")
	for i, processes := range cards {
		used := 0
		for _, p := range processes {
			used += p.MiB
		}
		fmt.Fprintf(&out, `<gpu id="00000000:0%d:00.0"><product_name>NVIDIA Test</product_name><uuid>%s</uuid><minor_number>%d</minor_number>
<fb_memory_usage><total>24576 MiB</total><used>%d MiB</used></fb_memory_usage>
<utilization><gpu_util>%d %%</gpu_util><memory_util>5 %%</memory_util></utilization>
<temperature><gpu_temp>41 C</gpu_temp></temperature><gpu_power_readings><power_draw>73.90 W</power_draw></gpu_power_readings><processes>`,
			i+1, UUID(i), i, used, min(100, 10*len(processes)))
		for _, p := range processes {
			fmt.Fprintf(&out, "<process_info><gpu_instance_id>%s</gpu_instance_id><compute_instance_id>%s</compute_instance_id>"+
				"<pid>%d</pid><type>%s</type><process_name>", instance(p), instance(p), p.PID, p.Type)
			_ = xml.EscapeText(&out, []byte(p.Name))
			fmt.Fprintf(&out, "</process_name><used_memory>%d MiB</used_memory></process_info>", p.MiB)
		}
		out.WriteString("</processes></gpu>")
	}
	out.WriteString("</nvidia_smi_log>\n")
	return out.String()
}

func instance(p Process) string {
	if p.Instance == "" {
		return "N/A"
	}
	return p.Instance
}
