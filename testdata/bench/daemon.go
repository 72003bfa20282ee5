package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/testdata/images"
)

// daemon is a jobd of the benchmark's own.
type daemon struct {
	bin, root, state string
	flags            []string
	process          *exec.Cmd
	output           bytes.Buffer
	*kubernetes.Clientset
}

// start starts a daemon of the build that is measured, on the disk of the benchmark.
func (b *bench) start(ctx context.Context, flags ...string) (*daemon, error) {
	return startDaemon(ctx, b.bin, b.disk.dir, flags...)
}

// startDaemon starts one whose root directory is below dir, and gives it the image that everything runs.
func startDaemon(ctx context.Context, bin, dir string, flags ...string) (*daemon, error) {
	d := &daemon{bin: bin, flags: flags}
	var err error
	if d.root, err = os.MkdirTemp(dir, "root."); err != nil {
		return nil, err
	}
	if d.state, err = os.MkdirTemp(memory(), "jobd-bench."); err != nil {
		return nil, err
	}
	if err := os.Chmod(d.state, 0o711); err != nil { // the users of pods pass through it
		return nil, err
	}
	if _, err := d.serve(ctx); err != nil {
		d.close()
		return nil, err
	}
	if d.simulated() {
		return d, nil
	}
	if err := d.importBusybox(ctx); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *daemon) importBusybox(ctx context.Context) error {
	archive, err := busybox()
	if err == nil {
		cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "jobctl"), "image", "import", "-")
		cmd.Env = append(os.Environ(), "JOBD_SOCKET="+d.socket())
		cmd.Stdin = archive
		err = cmd.Run()
	}
	if err != nil {
		return fmt.Errorf("import busybox: %w", err)
	}
	return nil
}

// busybox returns the image that everything runs, as an archive.
func busybox() (*bytes.Buffer, error) {
	image, err := images.Busybox("docker.io/library/busybox:1.36")
	if err != nil {
		return nil, err
	}
	archive := &bytes.Buffer{}
	return archive, images.WriteDocker(archive, image)
}

func (d *daemon) simulated() bool { return strings.Contains(strings.Join(d.flags, " "), "simulated") }
func (d *daemon) socket() string  { return filepath.Join(d.state, "jobd.sock") }

// memory returns a directory in memory, as /run is on hosts with systemd.
func memory() string {
	for _, dir := range []string{"/run", "/dev/shm"} {
		var stat unix.Statfs_t
		if unix.Statfs(dir, &stat) == nil && stat.Type == unix.TMPFS_MAGIC {
			return dir
		}
	}
	return "/run"
}

// serve starts the process and returns the time until it answered a list.
func (d *daemon) serve(ctx context.Context) (time.Duration, error) {
	d.process = exec.Command(filepath.Join(d.bin, "jobd"), append([]string{"serve", "--root", d.root, "--state", d.state, "--log-level", "error"}, d.flags...)...)
	d.process.Stdout, d.process.Stderr = &d.output, &d.output
	begin := time.Now()
	if err := d.process.Start(); err != nil {
		return 0, err
	}
	client, err := d.connect(protobufType)
	if err != nil {
		return 0, err
	}
	d.Clientset = client
	for time.Since(begin) < time.Minute {
		if _, err := client.BatchV1().Jobs("default").List(ctx, metav1.ListOptions{Limit: 1}); err == nil {
			return time.Since(begin), nil
		}
		time.Sleep(time.Millisecond)
	}
	return 0, fmt.Errorf("jobd does not answer: %s", d.output.String())
}

func (d *daemon) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", d.socket())
}

// connect returns a client that speaks one content type.
func (d *daemon) connect(contentType string) (*kubernetes.Clientset, error) {
	return kubernetes.NewForConfig(&rest.Config{Host: "http://jobd", Dial: d.dial, ContentConfig: rest.ContentConfig{ContentType: contentType}, QPS: -1})
}

// stop ends the process and leaves the containers.
func (d *daemon) stop() {
	_ = d.process.Process.Kill()
	_ = d.process.Wait()
}

func (d *daemon) close() {
	if d.process != nil && d.process.Process != nil {
		d.stop()
	}
	_ = exec.Command(filepath.Join(d.bin, "jobd"), "clean", "--purge", "--yes", "--root", d.root, "--state", d.state).Run()
	os.RemoveAll(d.root)
	os.RemoveAll(d.state)
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

// usage is what processes have used: CPU seconds of their own and of their ended children, of these alone, and memory in MB.
type usage struct{ cpu, children, rss, anon float64 }

func (d *daemon) self() usage { return processUsage(d.process.Process.Pid) }

// shards are the processes that hold the containers, with all that ran below them.
func (d *daemon) shards() (all usage) {
	for _, pid := range d.shardPIDs() {
		u := processUsage(pid)
		all.cpu += u.cpu
		all.children += u.children
		all.rss += u.rss
		all.anon += u.anon
	}
	return all
}

func (d *daemon) shardPIDs() (pids []int) {
	cmdlines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range cmdlines {
		cmdline, _ := os.ReadFile(path)
		if bytes.Contains(cmdline, []byte("jobd-shim")) && bytes.Contains(cmdline, []byte(d.state)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
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
func ownCPU() float64 { return processUsage(os.Getpid()).cpu }

func processUsage(pid int) (u usage) {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if _, rest, ok := bytes.Cut(stat, []byte(") ")); ok {
		fields := strings.Fields(string(rest))
		for _, i := range []int{11, 12, 13, 14} { // utime, stime, cutime, cstime in ticks of 10 ms
			ticks, _ := strconv.ParseFloat(fields[i], 64)
			u.cpu += ticks / 100
			if i >= 13 {
				u.children += ticks / 100
			}
		}
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kb, _ := strconv.ParseFloat(fields[1], 64)
		switch fields[0] {
		case "VmRSS:":
			u.rss = kb / 1024
		case "RssAnon:":
			u.anon = kb / 1024
		}
	}
	return u
}
