package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// crashing is a daemon that is killed and started again, over and over.
type crashing struct {
	*daemon
	before []string // what was on the host before anything ran
}

// startCrashing starts a daemon with the settings that it has so far.
func startCrashing(t *testing.T, d *daemon) *crashing {
	t.Helper()
	return startCrashingIn(t, d, "/var/tmp")
}

// startCrashingIn is startCrashing with the root below the given directory.
func startCrashingIn(t *testing.T, d *daemon, dir string) *crashing {
	t.Helper()
	d.flags = append(d.flags, "--pod-backoff-base", "10ms")
	d.begin(dir)
	return &crashing{d, d.onHost()}
}

// until waits until something is so, and starts the daemon again whenever it has been killed.
func (c *crashing) until(what string, is func() error) {
	c.t.Helper()
	c.eventually(what, func() error {
		select {
		case <-c.ended:
			if status, ok := c.process.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
				c.t.Fatalf("jobd has ended by itself: %v\n%s", c.process.ProcessState, c.output)
			}
			c.launch()
		default:
		}
		return is()
	})
}

// killShards kills all shards of the daemon, which starts them again.
func (d *daemon) killShards() {
	for _, pid := range d.shards() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// shards returns the processes that hold the containers.
func (d *daemon) shards() (pids []int) {
	cmdlines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range cmdlines {
		cmdline, _ := os.ReadFile(path)
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && bytes.Contains(cmdline, []byte("\x00--dir\x00"+d.state+"/shards/")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// remove deletes the Jobs and their claims and waits until the host is as it was before.
func (c *crashing) remove() {
	c.t.Helper()
	c.until("the Jobs are gone", func() error {
		background := metav1.DeletePropagationBackground
		if err := c.BatchV1().Jobs("default").DeleteCollection(
			c.t.Context(), metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{},
		); err != nil {
			return err
		}
		pods, err := c.CoreV1().Pods("default").List(c.t.Context(), metav1.ListOptions{})
		if err == nil && len(pods.Items) > 0 {
			return fmt.Errorf("%d pods are left", len(pods.Items))
		}
		jobs, err2 := c.BatchV1().Jobs("default").List(c.t.Context(), metav1.ListOptions{})
		if err2 == nil && len(jobs.Items) > 0 {
			return fmt.Errorf("%d Jobs are left", len(jobs.Items))
		}
		return errors.Join(err, err2)
	})
	c.until("the claims and their volumes are gone", func() error {
		if err := c.CoreV1().PersistentVolumeClaims("default").DeleteCollection(c.t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			return err
		}
		volumes, err := c.CoreV1().PersistentVolumes().List(c.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if left, _ := filepath.Glob(filepath.Join(c.root, "volumes", "*")); len(left) > 0 || len(volumes.Items) > 0 {
			return fmt.Errorf("%d volumes are left: %v", len(volumes.Items), left)
		}
		return nil
	})
	c.until("the host is as it was", func() error {
		if err := c.ready(); err != nil {
			return err
		}
		var changes []string
		now := c.onHost()
		for _, what := range now {
			if !slices.Contains(c.before, what) {
				changes = append(changes, "left: "+what)
			}
		}
		for _, what := range c.before {
			if !slices.Contains(now, what) {
				changes = append(changes, "gone: "+what)
			}
		}
		if len(changes) > 0 {
			return errors.New(strings.Join(changes, "\n"))
		}
		return nil
	})
}
