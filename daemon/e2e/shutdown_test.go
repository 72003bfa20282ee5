package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/daemon/logind/logindtest"
)

// checkpointing is a Job whose pods write on SIGTERM what a file of its claim then has, after a preStop hook, and a pod that restarts
// its container. The Job is complete once its pod is the third.
const checkpointing = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: long}
spec:
  backoffLimit: 0
  podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 300
      containers:
      - name: c
        image: busybox:1.36
        command: [sh, -c, 'n=$(($(cat /data/n || echo 0) + 1)); echo $n >/data/n; trap "echo checkpoint $n >>/data/log; exit 0" TERM;
          [ $n -lt 3 ] || { cat /data/log; exit 0; }; echo at work; while :; do sleep 0.1; done']
        lifecycle: {preStop: {exec: {command: [sh, -c, 'echo preStop $(cat /data/n) >>/data/log']}}}
        volumeMounts: [{name: data, mountPath: /data}]
      volumes:
      - {name: data, persistentVolumeClaim: {claimName: data}}
---
apiVersion: v1
kind: Pod
metadata: {name: lasting}
spec:
  restartPolicy: OnFailure
  terminationGracePeriodSeconds: 300
  containers: [{name: c, image: 'busybox:1.36', command: [sh, -c, 'trap "exit 0" TERM; echo at work; while :; do sleep 0.1; done']}]
`

// atWork waits until the pods do their work, and returns the Job's.
func (d *daemon) atWork(restarts int32) (name string) {
	d.t.Helper()
	d.eventually("the pods are at work", func() error {
		pods := slices.DeleteFunc(d.pods("long"), func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning })
		if len(pods) != 1 {
			return fmt.Errorf("%d pods run", len(pods))
		}
		name = pods[0].Name
		for _, pod := range []string{name, "lasting"} {
			if out, err := d.try("jobctl", nil, "logs", pod); err != nil || !strings.Contains(out, "at work") {
				return errors.Join(errors.New("not yet "+out), err)
			}
		}
		return nil
	})
	d.podUntil("lasting", "runs", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && p.Status.Reason == "" && p.Status.ContainerStatuses[0].RestartCount == restarts &&
			p.Status.ContainerStatuses[0].State.Running != nil && conditions.Find(p.Status.Conditions, corev1.DisruptionTarget) == nil
	})
	return name
}

func (d *daemon) endedByShutdown(name string) {
	d.t.Helper()
	s := d.podUntil(name, "has ended", ended).Status
	c := conditions.Find(s.Conditions, corev1.DisruptionTarget)
	if s.Phase != corev1.PodFailed || s.Reason != "Terminated" || c == nil || c.Reason != corev1.PodReasonTerminationByKubelet {
		d.t.Errorf("%s: %+v", name, s)
	}
}

// complete waits for the Job, and checks that each pod has written its checkpoint after its hook.
func (d *daemon) completeAfterCheckpoints() {
	d.t.Helper()
	d.jobctl("wait", "--for=condition=complete", "job/long", patiently)
	if got := d.jobctl("logs", "jobs/long"); !strings.HasSuffix(got, "preStop 1\ncheckpoint 1\npreStop 2\ncheckpoint 2\n") {
		d.t.Errorf("the last pod found these checkpoints:\n%s", got)
	}
	if got := d.jobctl("get", "job", "long", "-o", "jsonpath={.status.failed}"); got != "" && got != "0" {
		d.t.Errorf("%s pods have failed, while the policy ignores disruptions", got)
	}
}

// nothingHoldsUp waits until no process of the daemon is left, for which systemd would wait.
func (d *daemon) nothingHoldsUp() {
	d.t.Helper()
	d.eventually("no process is left", func() error {
		if left := leftOnHost(d.root, d.state, "")["process"]; left != "" {
			return errors.New(left)
		}
		return nil
	})
}

func (d *daemon) locks(bus *logindtest.Bus, want ...string) {
	d.t.Helper()
	d.eventually(fmt.Sprintf("the locks of logind are %q", want), func() error {
		if got := bus.Locks(); !slices.Equal(got, want) {
			return fmt.Errorf("%q", got)
		}
		return nil
	})
}

func startWith(t *testing.T, bus *logindtest.Bus, flags ...string) *daemon {
	t.Helper()
	needContainers(t)
	d := &daemon{t: t, flags: slices.Concat(flags, []string{"--network", "none", "--pod-backoff-base", "1s"}), build: bin,
		env: []string{"DBUS_SYSTEM_BUS_ADDRESS=" + bus.Address}}
	d.begin("/var/tmp")
	return d
}

// The machine is about to go down, by logind, and stays up after all.
func TestShutdownThatIsCalledOff(t *testing.T) {
	t.Parallel()
	bus := logindtest.Start(t)
	d := startWith(t, bus)
	d.locks(bus, "delay shutdown")
	d.apply(checkpointing)
	for restarts := range int32(2) {
		name := d.atWork(restarts)
		bus.PrepareForShutdown(true)
		d.endedByShutdown(name)
		d.locks(bus)
		d.podUntil("lasting", "waits", func(p *corev1.Pod) bool {
			w := p.Status.ContainerStatuses[0].State.Waiting
			return p.Status.Phase == corev1.PodRunning && w != nil && w.Reason == "NodeShutdown"
		})
		if pods := d.pods("long"); slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }) {
			t.Errorf("a pod was started while the machine goes down: %+v", pods)
		}
		bus.PrepareForShutdown(false)
		d.locks(bus, "delay shutdown")
	}
	d.completeAfterCheckpoints()
}

// Systemd stops jobd because the machine goes down, or somebody says so by SIGPWR; a SIGTERM alone ends nothing.
func TestJobdIsStoppedByAShutdown(t *testing.T) {
	t.Parallel()
	bus := logindtest.Start(t)
	d := startWith(t, bus)
	d.apply(checkpointing)
	stop := func(signal syscall.Signal) {
		t.Helper()
		if err := d.process.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		select {
		case <-d.ended:
		case <-time.After(patience):
			t.Fatal("jobd does not end")
		}
		if code := d.process.ProcessState.ExitCode(); code != 0 {
			t.Errorf("jobd exits with %d", code)
		}
	}
	name := d.atWork(0)
	stop(syscall.SIGTERM)
	d.serve()
	if again := d.atWork(0); again != name {
		t.Fatalf("a restart of jobd has ended %s", name)
	}

	bus.SystemState("stopping")
	stop(syscall.SIGTERM)
	d.nothingHoldsUp()
	bus.SystemState("running")
	d.serve()
	d.endedByShutdown(name)
	name = d.atWork(1)

	stop(syscall.SIGPWR)
	d.nothingHoldsUp()
	d.serve()
	d.endedByShutdown(name)
	d.completeAfterCheckpoints()
}

// Without a grace period for it, a shutdown is like any other stop of jobd.
func TestShutdownWithoutGrace(t *testing.T) {
	t.Parallel()
	bus := logindtest.Start(t)
	d := startWith(t, bus, "--shutdown-grace-period", "0")
	d.apply(checkpointing)
	name := d.atWork(0)
	d.locks(bus)
	bus.SystemState("stopping")
	if err := d.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-d.ended
	d.serve()
	if again := d.atWork(0); again != name {
		t.Fatalf("a stop of jobd has ended %s", name)
	}
}

// The machine is kept awake while pods run, over a crash of jobd too, and not longer.
func TestInhibitSleep(t *testing.T) {
	t.Parallel()
	bus := logindtest.Start(t)
	d := startWith(t, bus, "--inhibit-sleep")
	d.locks(bus, "delay shutdown")
	d.apply(sleeper("sleeper", 2, 600, ""))
	d.locks(bus, "block sleep:idle", "delay shutdown")
	d.running("sleeper", 2)
	d.kill()
	d.locks(bus)
	d.serve()
	d.locks(bus, "block sleep:idle", "delay shutdown")
	d.jobctl("delete", "job", "sleeper")
	d.locks(bus, "delay shutdown")
}
