package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/testdata/rig"
)

// daemon is a jobd of the benchmark's own.
type daemon struct {
	*rig.Daemon
	output bytes.Buffer
}

// start starts a daemon of the build that is measured, on the disk of the benchmark.
func (b *bench) start(ctx context.Context, flags ...string) (*daemon, error) {
	return startDaemon(ctx, b.bin, b.disk.Dir, flags...)
}

// startDaemon starts one whose root directory is below dir, and gives it the image that everything runs.
func startDaemon(ctx context.Context, bin, dir string, flags ...string) (*daemon, error) {
	d := &daemon{}
	var err error
	if d.Daemon, err = rig.New(bin, dir, &d.output, append([]string{"--log-level", "error"}, flags...)...); err != nil {
		return nil, err
	}
	if _, err = d.serve(ctx); err == nil && !slices.Contains(flags, "simulated") {
		err = d.ImportBusybox(ctx)
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// serve starts the process and returns the time until it answered.
func (d *daemon) serve(ctx context.Context) (time.Duration, error) {
	took, err := d.Serve(ctx)
	if err != nil {
		err = fmt.Errorf("%w: %s", err, d.output.String())
	}
	return took, err
}

// close ends the daemon and all that it runs. The next part of the benchmark does not depend on what may be left.
func (d *daemon) close() {
	d.Kill()
	_ = d.Remove()
}

// job returns a Job of n pods that run a command.
func job(name string, n, parallel int, command ...string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{
			Completions: ptr.To(int32(n)), Parallelism: ptr.To(int32(parallel)),
			CompletionMode: ptr.To(batchv1.IndexedCompletion),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy:                 corev1.RestartPolicyNever,
				TerminationGracePeriodSeconds: ptr.To(int64(0)),
				Containers:                    []corev1.Container{{Name: "c", Image: "busybox:1.36", Command: command}},
			}},
		},
	}
}

// run creates a Job and returns the time until a watcher saw it complete.
func (d *daemon) run(ctx context.Context, j *batchv1.Job) (time.Duration, error) {
	return d.watch(ctx, j, func(j *batchv1.Job) bool { return batch.End(&j.Status) != nil })
}

func (d *daemon) watch(ctx context.Context, j *batchv1.Job, until func(*batchv1.Job) bool) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	w, err := d.BatchV1().Jobs("default").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + j.Name})
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	begin := time.Now()
	if _, err := d.BatchV1().Jobs("default").Create(ctx, j, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	for e := range w.ResultChan() {
		if seen, ok := e.Object.(*batchv1.Job); ok && until(seen) {
			took := time.Since(begin)
			if seen.Status.Failed > 0 {
				return took, fmt.Errorf("%d pods of %s have failed: %w", seen.Status.Failed, j.Name, d.whyFailed(ctx, j.Name))
			}
			return took, nil
		}
	}
	return 0, fmt.Errorf("%s: the watch has ended: %w", j.Name, ctx.Err())
}

// whyFailed returns the messages of a Job's failed pods.
func (d *daemon) whyFailed(ctx context.Context, job string) error {
	list, err := d.CoreV1().Pods("default").List(ctx, metav1.ListOptions{
		LabelSelector: batchv1.JobNameLabel + "=" + job, FieldSelector: "status.phase=Failed",
	})
	if err != nil {
		return err
	}
	var why []error
	for _, pod := range list.Items {
		why = append(why, fmt.Errorf("%s: %s %s", pod.Name, pod.Status.Reason, pod.Status.Message))
		for _, c := range pod.Status.ContainerStatuses {
			if end := c.State.Terminated; end != nil {
				why = append(why, fmt.Errorf("%s: exit code %d, %s: %s", c.Name, end.ExitCode, end.Reason, end.Message))
			}
		}
	}
	return errors.Join(why...)
}

// remove deletes a Job and waits until its pods are gone.
func (d *daemon) remove(ctx context.Context, name string) (time.Duration, error) {
	begin := time.Now()
	if err := d.BatchV1().Jobs("default").Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}); err != nil {
		return 0, err
	}
	for {
		list, err := d.CoreV1().Pods("default").List(ctx, metav1.ListOptions{Limit: 1, LabelSelector: batchv1.JobNameLabel + "=" + name})
		if err != nil || len(list.Items) == 0 {
			return time.Since(begin), err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (d *daemon) self() rig.Usage { return rig.UsageOf(d.PID()) }

// shards are the processes that hold the containers, with all that ran below them.
func (d *daemon) shards() (all rig.Usage) {
	for _, pid := range d.Shards() {
		u := rig.UsageOf(pid)
		all.CPU += u.CPU
		all.Children += u.Children
		all.RSS += u.RSS
		all.Anon += u.Anon
	}
	return all
}

// machineCPU returns for how many seconds all processors have worked, for whomever.
func machineCPU() (busy float64) {
	stat, _ := os.ReadFile("/proc/stat")
	first, _, _ := strings.Cut(string(stat), "\n")
	for i, field := range strings.Fields(first) {
		if i > 0 && i < 8 && i != 4 && i != 5 { // except for idle and iowait
			ticks, _ := strconv.ParseFloat(field, 64)
			busy += ticks / 100
		}
	}
	return busy
}

// ownCPU returns that of this process.
func ownCPU() float64 { return rig.UsageOf(os.Getpid()).CPU }
