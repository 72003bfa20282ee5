package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// tool is a program beside which jobd is measured, as it is installed. What it cannot do is nil.
type tool struct {
	name string
	env  []string
	// one runs `true` to its end, and print a script that prints much, to its standard output.
	one, print func() []string
	// array runs `true` n times, parallel of them at a time, as one thing. Without it, and where they start later so, one is called
	// so often.
	array       func(n, parallel int) []string
	startsLater bool
	// load takes in the archive of an image.
	load  func(archive string) []string
	close func()
	said  tail // by its daemons
}

// toolsDir has what tools share.
type toolsDir struct {
	path    string
	script  string // prints printed MB
	archive string // of an image of imageSize
	n       atomic.Int64
}

// unique returns a name for a container.
func (t *toolsDir) unique() string { return "bench" + strconv.FormatInt(t.n.Add(1), 10) }

// makers start each tool. An error says why it cannot be measured here.
var makers = []struct {
	name string
	make func(context.Context, *bench, *toolsDir) (*tool, error)
}{
	{"jobd", jobdTool}, {"Slurm", slurmTool}, {"docker", dockerTool}, {"podman", podmanTool}, {"ctr", ctrTool}, {"task-spooler", spoolerTool},
	{"GNU parallel", parallelTool},
}

// what is measured of each tool, in the order of the columns.
const (
	ofOne = iota
	ofMany
	ofArray
	ofImage
	ofLogs
	measurements
)

// tools compares jobd in turns with other programs that run commands or containers. Those that this machine does not have are
// left out by name.
func (b *bench) tools(ctx context.Context) error {
	path, err := os.MkdirTemp(b.disk.Dir, "jobd-bench-tools.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(path)
	mb, printed, array := 1000, 100, 1000
	if b.quick {
		mb, printed, array = 50, 5, 100
	}
	dir := &toolsDir{path: path, script: filepath.Join(path, "print.sh"), archive: filepath.Join(path, "image.tar")}
	if err := os.WriteFile(dir.script, fmt.Appendf(nil, "#!/bin/sh\nyes %063d | head -c %d000000\n", 7, printed), 0o755); err != nil {
		return err
	}
	if err := writeImage(dir.archive, mb); err != nil {
		return err
	}
	var all []*tool
	for _, m := range makers {
		t, err := m.make(ctx, b, dir)
		if err != nil {
			fmt.Fprintf(os.Stderr, "without %s: %v\n", m.name, err)
			continue
		}
		t.name = m.name
		defer t.close()
		all = append(all, t)
	}
	figures := map[string]*[measurements]series{}
	for round := range b.rounds {
		for _, t := range all {
			if round == 0 {
				figures[t.name] = &[measurements]series{}
				if _, err := t.seconds(ctx, t.one()); err != nil { // warms up
					return fmt.Errorf("%s: %w", t.name, err)
				}
			}
			if err := t.measure(ctx, figures[t.name], dir, array); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
		}
	}
	b.report.table("Beside other programs, in turns", "", "one `true`, ms", "`true`, 8 at a time, per second",
		fmt.Sprintf("array of %d, 8 at a time, s", array), fmt.Sprintf("image of %d MB, s", mb), fmt.Sprintf("log of %d MB, s", printed))
	for _, t := range all {
		row := []string{t.name}
		for i, column := range []struct{ name, unit, format string }{
			{"one", "ms", "%.0f"}, {"many", "runs/s", "%.0f"}, {"array", "s", "%.1f"}, {"image", "s", "%.1f"}, {"logs", "s", "%.2f"},
		} {
			of := figures[t.name][i]
			b.report.figure(fmt.Sprintf("Tools/%s/%s", t.name, column.name), of, column.unit)
			row = append(row, of.cell(column.format))
		}
		b.report.row(row...)
	}
	return nil
}

// measure takes one round of one tool.
func (t *tool) measure(ctx context.Context, f *[measurements]series, dir *toolsDir, array int) error {
	took, err := t.seconds(ctx, t.one())
	if err != nil {
		return err
	}
	f[ofOne] = append(f[ofOne], took*1000)
	many := 80
	if t.array != nil && !t.startsLater {
		took, err = t.seconds(ctx, t.array(many, 8))
		f[ofMany] = append(f[ofMany], float64(many)/took)
	} else {
		var perSecond float64
		perSecond, err = rate(ctx, many, 8, func(int) *exec.Cmd { return t.command(ctx, t.one()) })
		f[ofMany] = append(f[ofMany], perSecond)
	}
	if err != nil {
		return err
	}
	if t.array != nil && len(f[ofArray]) == 0 { // Slurm takes six minutes
		if took, err = t.seconds(ctx, t.array(array, 8)); err != nil {
			return err
		}
		f[ofArray] = append(f[ofArray], took)
	}
	if t.load != nil && len(f[ofImage]) == 0 { // the second time it is there already
		if took, err = t.seconds(ctx, t.load(dir.archive)); err != nil {
			return err
		}
		f[ofImage] = append(f[ofImage], took)
	}
	if took, err = t.seconds(ctx, t.print()); err != nil {
		return err
	}
	f[ofLogs] = append(f[ofLogs], took)
	return nil
}

func (t *tool) command(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), t.env...)
	return cmd
}

// seconds runs a command, whose output is read and thrown away.
func (t *tool) seconds(ctx context.Context, args []string) (float64, error) {
	cmd := t.command(ctx, args)
	last := &tail{}
	cmd.Stdout, cmd.Stderr = last, last
	begin := time.Now()
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, last.text)
	}
	return time.Since(begin).Seconds(), nil
}

// tail keeps the end of what is written.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(0, len(p)-1000):]...)
	t.text = t.text[max(0, len(t.text)-1000):]
	return len(p), nil
}

// sh is a command line of a shell.
func sh(format string, args ...any) []string {
	return []string{"sh", "-c", fmt.Sprintf(format, args...)}
}
