package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jobd/jobd/testdata/rig"
)

// submit compares, in turns, what a person waits for one Job of `echo`: by apply, wait and logs, by submit, and without a
// daemon.
func (b *bench) submit(ctx context.Context) error {
	d, err := b.start(ctx, "--network", "none")
	if err != nil {
		return err
	}
	defer d.close()
	root, err := os.MkdirTemp(b.disk.Dir, "jobd-bench-run.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	archive, err := rig.Busybox()
	if err != nil {
		return err
	}
	saved := filepath.Join(root, "busybox.tar")
	if err := os.WriteFile(saved, archive.Bytes(), 0o600); err != nil {
		return err
	}
	manifest := filepath.Join(root, "job.yaml")
	if err := os.WriteFile(manifest, []byte(`{apiVersion: batch/v1, kind: Job, metadata: {name: one}, spec: {template: {spec:
		{restartPolicy: Never, containers: [{name: c, image: "busybox:1.36", command: [echo, here]}]}}}}`), 0o600); err != nil {
		return err
	}
	call := func(name string, args ...string) error {
		cmd := exec.CommandContext(ctx, filepath.Join(b.bin, name), args...)
		cmd.Env = append(os.Environ(), "JOBD_SOCKET="+d.Socket())
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
		}
		return nil
	}
	kept := filepath.Join(root, "kept")
	if err := call("jobd", "run", "--root", kept, "--image-archive", saved, "--network", "none", "-f", manifest); err != nil {
		return err
	}
	ways := []struct {
		name  string
		calls [][]string
	}{
		{"jobctl version", [][]string{{"jobctl", "version", "--client"}}},
		{"apply, wait, logs", [][]string{
			{"jobctl", "apply", "-f", manifest}, {"jobctl", "wait", "--for=finished", "jobs/one"}, {"jobctl", "logs", "jobs/one"}}},
		{"submit", [][]string{{"jobctl", "submit", "--progress", "plain", "-f", manifest}}},
		{"jobd run", [][]string{{"jobd", "run", "--root", kept, "--network", "none", "-f", manifest}}},
	}
	ms := map[string][]float64{}
	for round := range 10*b.rounds + 1 {
		for _, way := range ways {
			begin := time.Now()
			for _, c := range way.calls {
				if err := call(c[0], c[1:]...); err != nil {
					return err
				}
			}
			if round > 0 { // the first one warms up
				ms[way.name] = append(ms[way.name], time.Since(begin).Seconds()*1000)
			}
			if err := call("jobctl", "delete", "jobs/one", "--ignore-not-found"); err != nil {
				return err
			}
		}
	}
	b.report.table(
		fmt.Sprintf("One Job of `echo` from the command line, %d times in turns", 10*b.rounds), "command", "p50 ms", "p90 ms",
		"more than apply, wait, logs",
	)
	for _, way := range ways {
		values := ms[way.name]
		b.report.figure("Command/"+strings.ReplaceAll(strings.ReplaceAll(way.name, ",", ""), " ", "_"), values, "ms")
		b.report.row("`"+way.name+"`", fmt.Sprintf("%.0f", median(values)), fmt.Sprintf("%.0f", quantile(values, 0.9)),
			fmt.Sprintf("%+.0f", median(values)-median(ms["apply, wait, logs"])))
	}
	return nil
}
