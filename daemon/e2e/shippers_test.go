package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// shipped is what a shipper makes of a record, by its settings in docs/shippers.
type shipped struct {
	Time, Namespace, Pod, Container, Attempt, Stream, Part, Message string
}

// shipper is a program that follows the logs of a daemon's pods.
type shipper struct {
	t       *testing.T
	command []string
	dir     string // of its own; it writes what it has read into jobd-pods.json
	reads   func(line []byte) ([]shipped, error)
	process *exec.Cmd
}

// shippers are the programs that the test has, with the settings of docs/shippers.
var shippers = map[string]struct {
	settings string
	command  func(t *testing.T, settings, dir string) []string
	reads    func(line []byte) ([]shipped, error)
	// joins says that it joins the parts of a long line, and finds what was rotated while it was away.
	joins, finds bool
}{
	"rsyslog": {
		settings: "rsyslog.conf",
		command: func(t *testing.T, settings, dir string) []string {
			program, err := exec.LookPath("rsyslogd")
			if err != nil {
				t.Skip("needs rsyslogd, of Debian's package rsyslog")
			}
			return []string{program, "-n", "-i", filepath.Join(dir, "pid"), "-f", settings}
		},
		reads: func(line []byte) ([]shipped, error) {
			var s shipped
			err := json.Unmarshal(line, &s)
			return []shipped{s}, err
		},
	},
	"OpenTelemetry Collector": {
		settings: "otelcol.yaml", joins: true, finds: true,
		command: func(t *testing.T, settings, _ string) []string {
			return []string{tool(t, "otelcol", ""), "--config", "file:" + settings}
		},
		reads: readOTLP,
	},
}

// readOTLP reads the records in a line of the exporter "file".
func readOTLP(line []byte) (all []shipped, err error) {
	type value struct{ StringValue string }
	type record struct {
		TimeUnixNano string
		Body         value
		Attributes   []struct {
			Key   string
			Value value
		}
	}
	var logs struct {
		ResourceLogs []struct {
			ScopeLogs []struct{ LogRecords []record }
		}
	}
	if err := json.Unmarshal(line, &logs); err != nil {
		return nil, err
	}
	for _, resource := range logs.ResourceLogs {
		for _, scope := range resource.ScopeLogs {
			for _, r := range scope.LogRecords {
				has := map[string]string{}
				for _, a := range r.Attributes {
					has[a.Key] = a.Value.StringValue
				}
				all = append(all, shipped{
					Time: r.TimeUnixNano, Namespace: has["namespace"], Pod: has["pod"], Container: has["container"],
					Attempt: has["attempt"], Stream: has["log.iostream"], Part: has["logtag"], Message: r.Body.StringValue,
				})
			}
		}
	}
	return all, nil
}

func (s *shipper) start() {
	s.t.Helper()
	s.process = exec.Command(s.command[0], s.command[1:]...)
	output, err := os.OpenFile(filepath.Join(s.dir, "output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer output.Close()
	s.process.Stdout, s.process.Stderr = output, output
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// stop ends the program, which writes down how far it is.
func (s *shipper) stop() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Signal(syscall.SIGTERM)
	_ = s.process.Wait()
	s.process = nil
	if output, _ := os.ReadFile(filepath.Join(s.dir, "output")); s.t.Failed() {
		s.t.Logf("it said:\n%s", output)
	}
}

// records returns what it has written so far.
func (s *shipper) records() (all []shipped) {
	f, err := os.Open(filepath.Join(s.dir, "jobd-pods.json"))
	if err != nil {
		return nil
	}
	defer f.Close()
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return all // the last one is not complete yet
		}
		records, err := s.reads(line)
		if err != nil {
			s.t.Fatalf("%v: %s", err, line)
		}
		all = append(all, records...)
	}
}

// TestLogsAreShipped has programs follow the logs of pods: each line comes once, although the log is rotated, jobd is killed meanwhile,
// and the program restarted.
func TestLogsAreShipped(t *testing.T) {
	t.Parallel()
	needContainers(t)
	for name, with := range shippers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &shipper{t: t, dir: t.TempDir(), reads: with.reads}
			path := filepath.Join(s.dir, with.settings)
			s.command = with.command(t, path, s.dir)
			d := start(t, "--network", "none", "--container-log-max-size", "100Ki", "--container-log-max-files", "20")
			text, err := os.ReadFile("../../docs/shippers/" + with.settings)
			if err != nil {
				t.Fatal(err)
			}
			settings := strings.NewReplacer(
				"/var/lib/jobd/", d.root+"/", "/var/log/", s.dir+"/", "/var/lib/otelcol/jobd", s.dir, "global(", fmt.Sprintf("global(workDirectory=%q ", s.dir),
			).Replace(string(text))
			if err := os.WriteFile(path, []byte(settings), 0o600); err != nil {
				t.Fatal(err)
			}
			s.start()
			t.Cleanup(s.stop)
			// Three files hold what it says in four rounds. Before each one it waits to be told, so that one rotation at a time is under way.
			const rounds, lines = 8, 1000
			wantParts := "PF"
			if with.joins {
				wantParts = "P" // of the first part
			}
			d.apply(`
apiVersion: batch/v1
kind: Job
metadata: {name: talks}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: c
        image: busybox:1.36
        command:
        - sh
        - -c
        - |
          for round in 1 2 3 4 5 6 7 8; do
            until [ -e /tmp/$round ]; do sleep 0.1; done
            for n in $(seq 1000); do echo "$round-$n \"quoted\" and a \\"; done
          done
          head -c 20000 /dev/zero | tr '\0' x >&2
          echo >&2
`)
			d.running("talks", 1)
			for round := 1; round <= rounds; round++ {
				if round == 5 {
					s.stop()
					if !with.finds {
						s.start()
					}
				}
				d.jobctl("exec", "jobs/talks", "--", "touch", fmt.Sprintf("/tmp/%d", round))
				if round == 3 {
					d.kill()
					d.serve()
				}
				if s.process == nil {
					d.eventually("the round is written", func() error {
						if said := d.jobctl("logs", "jobs/talks", "--tail=1"); !strings.HasPrefix(said, fmt.Sprintf("%d-%d ", round, lines)) {
							return fmt.Errorf("%q", said)
						}
						return nil
					})
					s.start()
				}
				d.eventually(fmt.Sprint("round ", round, " is shipped"), func() error {
					if got := len(s.records()); got < round*lines {
						return fmt.Errorf("%d lines", got)
					}
					return nil
				})
			}
			d.complete("talks")
			d.eventually("the long line is shipped", func() error {
				if got := len(s.records()); got < rounds*lines+len(wantParts) {
					return fmt.Errorf("%d lines", got)
				}
				return nil
			})

			pod, times, long, parts := d.pods("talks")[0].Name, map[string]int{}, "", ""
			for _, r := range s.records() {
				if r.Namespace != "default" || r.Pod != pod || r.Attempt != "0" || r.Time == "" {
					t.Fatalf("a record of pod %s: %+v", pod, r)
				}
				if r.Stream == "stdout" {
					times[r.Message]++
				} else {
					long, parts = long+r.Message, parts+r.Part
				}
			}
			for round := 1; round <= rounds; round++ {
				for n := 1; n <= lines; n++ {
					if line := fmt.Sprintf(`%d-%d "quoted" and a \`, round, n); times[line] != 1 {
						t.Errorf("%d times: %s", times[line], line)
					}
				}
			}
			if long != strings.Repeat("x", 20000) || parts != wantParts {
				t.Errorf("of the long line came %d bytes in the parts %s", len(long), parts)
			}
			if files, _ := filepath.Glob(filepath.Join(d.root, "logs", "*", "c", "0.log.*")); len(files) < 3 {
				t.Errorf("it was not rotated: %q", files)
			}
		})
	}
}
