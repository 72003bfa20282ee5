// Package nvidia asks nvidia-smi what NVIDIA's cards do and who uses them, and finds out of processes that use them whether they
// belong to pods.
//
// The answer of `nvidia-smi -q -x` comes in, and a Report goes out. That is the one form of its output that has everything: the
// tables in CSV know no process that draws, no MIG device and no minor number. Nothing here is decided.
package nvidia

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Unknown is a figure that the driver does not tell: of a card that cannot measure it, of a MIG device, or for want of permission.
const Unknown = -1

// Report is what nvidia-smi has said.
type Report struct {
	At     time.Time
	Driver string // its version
	GPUs   []GPU
}

// GPU is a card.
type GPU struct {
	// Index is its number for nvidia-smi, Minor that of its file /dev/nvidiaN, or Unknown.
	Index, Minor      int
	UUID, Name, BusID string
	// Memory and Used are bytes, Utilization and MemoryUtilization percent of the time, Temperature is in degrees Celsius, and Power in
	// watts; each may be Unknown.
	Memory, Used                   int64
	Utilization, MemoryUtilization int
	Temperature                    int
	Power                          float64
	Instances                      []Instance
	Processes                      []Process
}

// Instance is a MIG device of a card.
type Instance struct {
	Index int // its number on the card
	// GPU and Compute are the ids of its GPU instance and its compute instance.
	GPU, Compute int
	Memory, Used int64
}

// Process is a process that uses a card.
type Process struct {
	PID  int
	Name string // the path of its program, or what it calls itself
	// Draws says that it uses the card for graphics, maybe beside computations, as desktops do.
	Draws  bool
	Memory int64 // bytes, or Unknown
	// GPU and Compute are the ids of the MIG instances that it uses; Unknown if that is the whole card.
	GPU, Compute int
}

// Bounds of what is taken in: more than any machine has.
const (
	maxGPUs      = 256
	maxInstances = 64
	maxProcesses = 10_000
	maxText      = 256
	maxFigure    = 1 << 50
)

// document is the part of the answer that is read.
type document struct {
	XMLName xml.Name `xml:"nvidia_smi_log"`
	Driver  string   `xml:"driver_version"`
	GPUs    []struct {
		BusID     string  `xml:"id,attr"`
		Name      string  `xml:"product_name"`
		UUID      string  `xml:"uuid"`
		Minor     string  `xml:"minor_number"`
		Memory    memory  `xml:"fb_memory_usage"`
		Busy      string  `xml:"utilization>gpu_util"`
		Moving    string  `xml:"utilization>memory_util"`
		Degrees   string  `xml:"temperature>gpu_temp"`
		Power     readers `xml:"gpu_power_readings"`
		OldPower  readers `xml:"power_readings"`
		Instances []struct {
			Index   string `xml:"index"`
			GPU     string `xml:"gpu_instance_id"`
			Compute string `xml:"compute_instance_id"`
			Memory  memory `xml:"fb_memory_usage"`
		} `xml:"mig_devices>mig_device"`
		Processes []struct {
			GPU     string `xml:"gpu_instance_id"`
			Compute string `xml:"compute_instance_id"`
			PID     string `xml:"pid"`
			Type    string `xml:"type"`
			Name    string `xml:"process_name"`
			Memory  string `xml:"used_memory"`
		} `xml:"processes>process_info"`
	} `xml:"gpu"`
}

type memory struct {
	Total string `xml:"total"`
	Used  string `xml:"used"`
}

// readers are the readings of power, whose names differ between drivers.
type readers struct {
	Draw    string `xml:"power_draw"`
	Instant string `xml:"instant_power_draw"`
	Average string `xml:"average_power_draw"`
}

// Parse reads the answer of `nvidia-smi -q -x`. A figure that is not there, or is none, is Unknown.
func Parse(answer []byte) (*Report, error) {
	var d document
	if err := xml.Unmarshal(readable(answer), &d); err != nil {
		return nil, fmt.Errorf("the answer of nvidia-smi: %w", err)
	}
	if len(d.GPUs) > maxGPUs {
		return nil, fmt.Errorf("the answer of nvidia-smi: it has %d cards", len(d.GPUs))
	}
	r := &Report{Driver: text(d.Driver)}
	for i := range d.GPUs {
		in := &d.GPUs[i]
		g := GPU{
			Index: i, Minor: number(in.Minor), UUID: text(in.UUID), Name: text(in.Name), BusID: text(in.BusID),
			Memory: size(in.Memory.Total), Used: size(in.Memory.Used),
			Utilization: percent(in.Busy), MemoryUtilization: percent(in.Moving), Temperature: number(in.Degrees), Power: Unknown,
		}
		for _, p := range []string{
			in.Power.Draw, in.Power.Instant, in.Power.Average, in.OldPower.Draw,
		} {
			if watts, ok := figure(p, "W"); ok {
				g.Power = watts
				break
			}
		}
		for _, m := range in.Instances[:min(len(in.Instances), maxInstances)] {
			g.Instances = append(g.Instances, Instance{
				number(m.Index), number(m.GPU), number(m.Compute), size(m.Memory.Total), size(m.Memory.Used),
			})
		}
		for _, p := range in.Processes[:min(len(in.Processes), maxProcesses)] {
			pid := number(p.PID)
			if pid <= 0 {
				continue
			}
			g.Processes = append(g.Processes, Process{
				PID: pid, Name: text(p.Name), Draws: strings.Contains(p.Type, "G"), Memory: size(p.Memory),
				GPU: number(p.GPU), Compute: number(p.Compute),
			})
		}
		r.GPUs = append(r.GPUs, g)
	}
	return r, nil
}

// readable makes the answer fit for an XML parser, whatever processes call themselves: nvidia-smi is not known to write that as XML wants
// it, and a process could add others to the answer, or make all of it unreadable.
func readable(answer []byte) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(answer) {
		line = bytes.Map(func(r rune) rune {
			if r < ' ' && r != '\n' && r != '\t' && r != '\r' || r == utf8.RuneError || r == '\uFFFE' || r == '\uFFFF' {
				return '?'
			}
			return r
		}, line)
		name, begins := bytes.CutPrefix(bytes.TrimSpace(line), nameBegins)
		name, ends := bytes.CutSuffix(name, nameEnds)
		if !begins || !ends || isText(name) {
			out.Write(line)
			continue
		}
		out.Write(nameBegins)
		_ = xml.EscapeText(&out, name) // a buffer takes all
		out.Write(nameEnds)
	}
	return out.Bytes()
}

var nameBegins, nameEnds = []byte("<process_name>"), []byte("</process_name>")

// isText reports whether XML is nothing but text.
func isText(of []byte) bool {
	return !bytes.ContainsRune(of, '<') && xml.Unmarshal(slices.Concat(nameBegins, of, nameEnds), new(string)) == nil
}

func text(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "")
	}
	return s
}

// figure reads a number that is followed by one of the units, or by nothing.
func figure(s string, units ...string) (value float64, ok bool) {
	number, unit, _ := strings.Cut(strings.TrimSpace(s), " ")
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(value) || value < 0 || value > maxFigure {
		return 0, false
	}
	if unit = strings.TrimSpace(unit); unit == "" {
		return value, true
	}
	for _, u := range units {
		if unit == u {
			return value, true
		}
	}
	return 0, false
}

func number(s string) int {
	if n, ok := figure(s, "C"); ok && n <= math.MaxInt32 && n == math.Trunc(n) {
		return int(n)
	}
	return Unknown
}

func percent(s string) int {
	if n, ok := figure(s, "%"); ok && n <= 100 {
		return int(n)
	}
	return Unknown
}

// size reads an amount of memory, which nvidia-smi gives in MiB.
func size(s string) int64 {
	if n, ok := figure(s, "MiB"); ok && n <= maxFigure>>20 {
		return int64(n) << 20
	}
	return Unknown
}
