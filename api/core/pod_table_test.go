package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestPodTable(t *testing.T) {
	now := someTime.Add(10 * time.Second)
	const one = "{metadata: {name: p}, spec: {containers: [{name: a}]}, "
	const two = "{metadata: {name: p}, spec: {containers: [{name: a}, {name: b}]}, "
	const withInit = "{metadata: {name: p}, spec: {initContainers: [{name: i}, {name: j}], containers: [{name: a}]}, "
	const withSidecar = "{metadata: {name: p}, spec: {initContainers: [{name: s, restartPolicy: Always}], containers: [{name: a}]}, "
	const deleting = "{metadata: {name: p, deletionTimestamp: '2026-11-20T13:34:18Z'}, spec: {containers: [{name: a}]}, "
	for _, tc := range []struct{ name, pod, want string }{
		{"pending", one + "status: {phase: Pending}}", "0/1 Pending 0"},
		{"gated", one + "status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: SchedulingGated}]}}", "0/1 SchedulingGated 0"},
		{
			"being made",
			one + "status: {phase: Pending, containerStatuses: [{name: a, state: {waiting: {reason: ContainerCreating}}}]}}",
			"0/1 ContainerCreating 0",
		},
		{"no image", one + "status: {phase: Pending, containerStatuses: [{name: a, state: {waiting: {reason: ErrImagePull}}}]}}", "0/1 ErrImagePull 0"},
		{"running", one + "status: {phase: Running, containerStatuses: [{name: a, ready: true, state: {running: {}}}]}}", "1/1 Running 0"},
		{"completed", one + "status: {phase: Succeeded, containerStatuses: [{name: a, state: {terminated: {reason: Completed}}}]}}", "0/1 Completed 0"},
		{"failed", one + "status: {phase: Failed, containerStatuses: [{name: a, state: {terminated: {exitCode: 3, reason: Error}}}]}}", "0/1 Error 0"},
		{
			"out of memory",
			one + "status: {phase: Failed, containerStatuses: [{name: a, state: {terminated: {exitCode: 137, reason: OOMKilled}}}]}}",
			"0/1 OOMKilled 0",
		},
		{"an exit code alone", one + "status: {phase: Failed, containerStatuses: [{name: a, state: {terminated: {exitCode: 3}}}]}}", "0/1 ExitCode:3 0"},
		{"a signal alone", one + "status: {phase: Failed, containerStatuses: [{name: a, state: {terminated: {exitCode: 137, signal: 9}}}]}}", "0/1 Signal:9 0"},
		{"the pod's own reason", one + "status: {phase: Failed, reason: Evicted}}", "0/1 Evicted 0"},
		{"affinity of a node", one + "status: {phase: Failed, reason: NodeAffinity}}", "0/1 NodeAffinity 0"},
		{"crashing", one + "status: {phase: Running, containerStatuses: [{name: a, restartCount: 3, state: {waiting: {reason: " +
			"CrashLoopBackOff}}, lastState: {terminated: {exitCode: 1, finishedAt: '2026-11-20T13:34:23Z'}}}]}}",
			"0/1 CrashLoopBackOff 3 (5s ago)"},
		{"restarted and running", one + "status: {phase: Running, containerStatuses: [{name: a, ready: true, restartCount: 1, " +
			"state: {running: {}}, lastState: {terminated: {finishedAt: '2026-11-20T13:34:18Z'}}}]}}",
			"1/1 Running 1 (10s ago)"},
		{"one of two has ended", two + "status: {phase: Running, conditions: [{type: Ready, status: 'True'}], containerStatuses: " +
			"[{name: a, state: {terminated: {reason: Completed}}}, {name: b, ready: true, state: {running: {}}}]}}",
			"1/2 Running 0"},
		{"and the pod is not ready", two + "status: {phase: Running, containerStatuses: [{name: a, state: {terminated: {reason: " +
			"Completed}}}, {name: b, ready: true, state: {running: {}}}]}}",
			"1/2 NotReady 0"},
		{"the first container has the last word", two + "status: {phase: Failed, containerStatuses: [{name: a, state: " +
			"{terminated: {reason: Error}}}, {name: b, state: {terminated: {reason: Completed}}}]}}",
			"0/2 Error 0"},
		{
			"initializing",
			withInit + "status: {phase: Pending, initContainerStatuses: [{name: i, state: {running: {}}}, {name: j, state: " +
				"{waiting: {reason: PodInitializing}}}]}}",
			"0/1 Init:0/2 0",
		},
		{
			"one of two is done",
			withInit + "status: {phase: Pending, initContainerStatuses: [{name: i, state: {terminated: {exitCode: 0}}}, {name: j, state: {running: {}}}]}}",
			"0/1 Init:1/2 0",
		},
		{
			"initializing failed",
			withInit + "status: {phase: Failed, initContainerStatuses: [{name: i, state: {terminated: {exitCode: 1, reason: Error}}}]}}",
			"0/1 Init:Error 0",
		},
		{"initializing crashes", withInit + "status: {phase: Pending, initContainerStatuses: [{name: i, restartCount: 2, state: " +
			"{waiting: {reason: CrashLoopBackOff}}, lastState: {terminated: {finishedAt: '2026-11-20T13:34:26Z'}}}]}}",
			"0/1 Init:CrashLoopBackOff 2 (2s ago)"},
		{"restarts of what is done are history", withInit + "status: {phase: Running, initContainerStatuses: [{name: i, " +
			"restartCount: 2, state: {terminated: {exitCode: 0}}}, {name: j, state: {terminated: {exitCode: 0}}}], " +
			"containerStatuses: [{name: a, ready: true, state: {running: {}}}]}}",
			"1/1 Running 0"},
		{"a sidecar counts", withSidecar + "status: {phase: Running, initContainerStatuses: [{name: s, started: true, ready: " +
			"true, restartCount: 1, state: {running: {}}, lastState: {terminated: {finishedAt: '2026-11-20T13:34:26Z'}}}], " +
			"containerStatuses: [{name: a, ready: true, state: {running: {}}}]}}",
			"2/2 Running 1 (2s ago)"},
		{"being deleted", deleting + "status: {phase: Running, containerStatuses: [{name: a, ready: true, state: {running: {}}}]}}", "1/1 Terminating 0"},
		{"deleted and ended", deleting + "status: {phase: Failed, containerStatuses: [{name: a, state: {terminated: {reason: Error}}}]}}", "0/1 Error 0"},
		{"lost with its node", deleting + "status: {phase: Running, reason: NodeLost}}", "0/1 Unknown 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cells := podTable().Cells(podOf(t, tc.pod), now)
			if got := fmt.Sprint(cells[1], " ", cells[2], " ", cells[3]); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func TestWidePodTable(t *testing.T) {
	pod := podOf(t, `{metadata: {name: p, creationTimestamp: '2026-11-20T13:34:18Z'}, spec: {nodeName: node-1, readinessGates: [{conditionType: a}, {conditionType: b}]},
		status: {podIPs: [{ip: 10.0.0.1}], conditions: [{type: a, status: 'True'}]}}`)
	cells := podTable().Cells(pod, someTime.Add(90*time.Second))
	if got := fmt.Sprint(cells[4:]...); got != fmt.Sprint("90s", "10.0.0.1", "node-1", "<none>", "1/2") {
		t.Errorf("%s", got)
	}
	cells = podTable().Cells(&corev1.Pod{}, someTime)
	if got := fmt.Sprint(cells[4:]...); got != fmt.Sprint("<unknown>", "<none>", "<none>", "<none>", "<none>") {
		t.Errorf("%s", got)
	}
	var names []string
	for _, c := range podTable().Definitions() {
		names = append(names, c.Name)
	}
	if got := strings.Join(names, ","); got != "Name,Ready,Status,Restarts,Age,IP,Node,Nominated Node,Readiness Gates" {
		t.Error(got)
	}
}
