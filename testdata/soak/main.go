// Command soak runs many short pods in a row, as a day of a busy machine would, and fails if anything grows with their
// number. It starts a jobd of its own, on a disk of its own, and has clients create what people have: Jobs of one pod and
// Indexed ones, with logs, volumes, retries and claims, CronJobs, namespaces that come and go; Jobs end by themselves,
// fail, are deleted, or are removed by their TTL.
//
// After each row of pods it waits until all of them have ended, and measures what the daemon and its shards then hold. Each
// row goes to a file as it comes. At the end the last tenth of the rows is compared with the first one after the warm-up,
// and what is left when everything is deleted with what was left after the first row.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	s := &soak{}
	flag.StringVar(&s.bin, "bin", "bin", "directory of jobd, jobd-shim and jobctl")
	flag.IntVar(&s.pods, "pods", 200000, "pods in all")
	flag.IntVar(&s.rows, "rows", 0, "after how many equal parts of the pods to measure (1000, but at least 100 pods each)")
	flag.IntVar(&s.clients, "clients", 6, "Jobs at a time")
	flag.IntVar(&s.probes, "probes", 5, "Jobs of each row whose latency is measured, one by one while nothing else runs")
	flag.StringVar(&s.out, "out", ".soak", "directory for rows.tsv, table.md, jobd.log, profiles and lists of files")
	flag.StringVar(&s.disk, "disk", "/var/tmp", "directory of the file that holds the daemon's disk")
	flag.Uint64Var(&s.seed, "seed", 1, "seed of the order in which Jobs come")
	flag.Parse()
	if s.rows == 0 {
		s.rows = min(1000, s.pods/100)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		fmt.Fprintln(os.Stderr, "soak: ends after this row; another signal ends it at once")
		s.enough.Store(true)
		<-signals
		cancel()
	}()
	if err := s.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

type soak struct {
	bin, out, disk        string
	pods, rows            int
	clients, probes       int
	seed                  uint64
	daemon                *daemon
	rowsFile              *os.File
	enough                atomic.Bool // no more rows
	measured              []row
	restBefore, restAfter row
}

func (s *soak) run(ctx context.Context) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("containers need root")
	}
	if s.rows < 2*tenths || s.pods < s.rows {
		return fmt.Errorf("%d pods in %d rows: needs at least %d rows and a pod in each", s.pods, s.rows, 2*tenths)
	}
	for _, path := range []*string{&s.bin, &s.out, &s.disk} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(s.out, 0o755); err != nil {
		return err
	}
	if s.rowsFile, err = os.Create(filepath.Join(s.out, "rows.tsv")); err != nil {
		return err
	}
	defer s.rowsFile.Close()
	if s.daemon, err = startDaemon(ctx, s.bin, s.disk, filepath.Join(s.out, "jobd.log")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.daemon.close()) }()

	failed := s.soak(ctx)
	if len(s.measured) < 2*tenths {
		return errors.Join(failed, fmt.Errorf("%d rows are too few for a verdict", len(s.measured)))
	}
	return errors.Join(failed, s.judge()) // a run that was ended early is judged as well
}

func (s *soak) soak(ctx context.Context) error {
	w := newWork(s.daemon, s.seed, s.clients)
	if err := w.prepare(ctx); err != nil {
		return err
	}
	m := newMeter(s.daemon, s.out)
	perRow := s.pods / s.rows
	if err := w.row(ctx, perRow); err != nil {
		return err
	}
	var err error
	if s.restBefore, err = s.rest(ctx, w, m, "left-first"); err != nil {
		return err
	}
	if err := w.startCronJobs(ctx); err != nil {
		return err
	}
	if err := s.daemon.profile(ctx, filepath.Join(s.out, "heap-first")); err != nil {
		return err
	}
	if _, err := m.read(ctx, 0); err != nil { // from which on CPU time and pods are counted
		return err
	}
	if _, err := fmt.Fprint(s.rowsFile, tsvHead()); err != nil {
		return err
	}
	for i := 0; i < s.rows && !s.enough.Load(); i++ {
		begin := time.Now()
		if err := w.row(ctx, perRow); err != nil {
			return err
		}
		r, err := m.read(ctx, time.Since(begin))
		if err != nil {
			return err
		}
		if r.probes, err = w.latencies(ctx, s.probes); err != nil {
			return err
		}
		r.values[firstLineP50], r.values[firstLineP99] = quantile(r.probes, 0.5), quantile(r.probes, 0.99)
		if i%max(1, s.rows/50) == 0 || i == s.rows-1 {
			if r.values[databaseFree], err = s.daemon.freePages(ctx); err != nil {
				return err
			}
			fmt.Println(r)
		}
		s.measured = append(s.measured, r)
		if _, err := fmt.Fprint(s.rowsFile, r.tsv()); err != nil {
			return err
		}
		m.skip() // the work of the probes
	}
	if err := s.daemon.profile(ctx, filepath.Join(s.out, "heap-last")); err != nil {
		return err
	}
	s.restAfter, err = s.rest(ctx, w, m, "left-last")
	return err
}

// rest deletes everything and returns what is left once the daemon has come to rest. The names of all files go to a file.
func (s *soak) rest(ctx context.Context, w *work, m *meter, list string) (row, error) {
	if err := w.deleteAll(ctx); err != nil {
		return row{}, err
	}
	if err := s.daemon.idle(ctx); err != nil {
		return row{}, err
	}
	if err := s.daemon.listFiles(filepath.Join(s.out, list)); err != nil {
		return row{}, err
	}
	return m.read(ctx, 0)
}

// judge writes the table and returns what grows.
func (s *soak) judge() error {
	report := newReport(s.measured, s.restBefore, s.restAfter)
	text := report.markdown()
	fmt.Print(text)
	if err := os.WriteFile(filepath.Join(s.out, "table.md"), []byte(text), 0o644); err != nil {
		return err
	}
	return report.verdict()
}
