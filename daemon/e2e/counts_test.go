package e2e

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jobd/jobd/api/core"
)

// countsSteps is a program of a shell that prints 1, 2, 3, ... twenty times a second, as long as it is let.
const countsSteps = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done"

// counted returns how far such a Job has come; 0 if it has not begun.
func (d *daemon) counted(job string) int {
	d.t.Helper()
	n, _ := strconv.Atoi(strings.TrimSpace(d.jobctl("logs", "jobs/"+job, "--tail=1")))
	return n
}

// countsOn waits until such a Job has come further than now.
func (d *daemon) countsOn(job string) {
	d.t.Helper()
	before := d.counted(job)
	d.eventually(job+" goes on", func() error {
		if now := d.counted(job); now <= before {
			return fmt.Errorf("it stays at %d", now)
		}
		return nil
	})
}

// frozen waits until a pod of a Job is.
func (d *daemon) frozen(job string) {
	d.t.Helper()
	d.eventually(job+" is frozen", func() error {
		for _, p := range d.pods(job) {
			if _, is := core.PausedSince(&p); is {
				return nil
			}
		}
		return errors.New("it is not")
	})
}
