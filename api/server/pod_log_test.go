package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
)

func TestLogs(t *testing.T) {
	ts := startServer(t)
	pods := ts.client(t).CoreV1().Pods("default")
	started := func(name string, state corev1.ContainerState) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: state}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	make := func(name string, bound bool, statuses ...corev1.ContainerStatus) {
		pod := newPod(name)
		for _, s := range statuses {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: s.Name, Image: "busybox"})
		}
		mustMake(t, pods, pod)
		if bound {
			ts.bind(t, name, "n", statuses...)
		}
	}
	make("one", true, started("c", running))
	make("two", true, started("a", running), started("b", corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}))
	make("unbound", false, started("c", running))
	make("broken", true, started("c", running))

	resp := ts.send(
		t, "GET", "/api/v1/namespaces/default/pods/one/log",
		http.Header{"Accept": {"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}},
	)
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the log as metadata: %s", resp.Status)
	}
	resp.Body.Close()

	resp = ts.send(t, "GET", "/api/v1/namespaces/default/pods/unbound/log", http.Header{})
	resp.Body.Close()
	if said := resp.Header.Get("Warning"); !strings.Contains(said, "is not scheduled yet") || !strings.Contains(said, "jobctl why pods/unbound -n default") {
		t.Errorf("why a log is empty: %q", said)
	}

	for _, tc := range []struct {
		name    string
		pod     string
		options corev1.PodLogOptions
		want    string
		refused string
	}{
		{name: "the only container need not be named", pod: "one", want: "one/c\n"},
		{name: "one of several is named", pod: "two", options: corev1.PodLogOptions{Container: "a"}, want: "two/a\n"},
		{name: "none of several is named", pod: "two", refused: "a container name must be specified for pod two, choose one of: [a b]"},
		{name: "no such container", pod: "two", options: corev1.PodLogOptions{Container: "z"}, refused: "container z is not valid for pod two"},
		{
			name: "it waits for its image", pod: "two", options: corev1.PodLogOptions{Container: "b"},
			refused: `container "b" in pod "two" is waiting to start: trying and failing to pull image`,
		},
		{
			name: "there was no earlier attempt", pod: "one", options: corev1.PodLogOptions{Previous: true},
			refused: `previous terminated container "c" in pod "one" not found`,
		},
		{
			name: "options reach the reader", pod: "one",
			options: corev1.PodLogOptions{TailLines: ptr.To[int64](3), Timestamps: true}, want: "one/c timestamps tail\n",
		},
		{name: "a pod without a node has no log", pod: "unbound", want: ""},
		{
			name: "since what and when", pod: "one",
			options: corev1.PodLogOptions{SinceSeconds: ptr.To[int64](1), SinceTime: ptr.To(metav1.Now())},
			refused: "at most one of `sinceTime` or `sinceSeconds` may be specified",
		},
		{name: "a negative tail", pod: "one", options: corev1.PodLogOptions{TailLines: ptr.To[int64](-1)}, refused: "must be greater than or equal to 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []byte
			stream, err := pods.GetLogs(tc.pod, &tc.options).Stream(t.Context())
			if err == nil {
				got, err = io.ReadAll(stream)
				_ = stream.Close()
			}
			switch {
			case tc.refused != "":
				if err == nil || !strings.Contains(err.Error(), tc.refused) {
					t.Errorf("%v, not %s", err, tc.refused)
				}
			case err != nil || string(got) != tc.want:
				t.Errorf("%q: %v", got, err)
			}
		})
	}
	t.Run("a log that cannot be read to its end does not look as if it had ended there", func(t *testing.T) {
		stream, err := pods.GetLogs("broken", &corev1.PodLogOptions{}).Stream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		if got, err := io.ReadAll(stream); err == nil {
			t.Errorf("it looks as if it ended after %q", got)
		}
	})
	t.Run("a log that is followed comes line by line, and ends with the client", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := pods.GetLogs("one", &corev1.PodLogOptions{Follow: true}).Stream(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		line := [6]byte{}
		if _, err := io.ReadFull(stream, line[:]); err != nil || string(line[:]) != "one/c\n" {
			t.Fatalf("%q: %v", line, err)
		}
		cancel()
		if _, err := io.ReadAll(stream); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestAJobThatDoesNotStart: who follows the log of one that waits is told so, and nobody whose Job has just been created.
func TestAJobThatDoesNotStart(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for name, c := range map[string]struct {
		age    time.Duration
		change func(*batchv1.JobStatus)
		want   bool
	}{
		"new":      {time.Second, func(*batchv1.JobStatus) {}, true},
		"waits":    {time.Minute, func(s *batchv1.JobStatus) { s.Active = 1 }, false},
		"runs":     {time.Minute, func(s *batchv1.JobStatus) { s.Ready = ptr.To[int32](1) }, true},
		"has run":  {time.Minute, func(s *batchv1.JobStatus) { s.Failed = 1 }, true},
		"succeeds": {time.Minute, func(s *batchv1.JobStatus) { s.Succeeded = 1 }, true},
		"has ended": {time.Minute, func(s *batchv1.JobStatus) {
			s.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: "True"}}
		}, true},
	} {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-c.age))}}
		c.change(&j.Status)
		if got := hasStarted(j, now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if said := mustSayWaits(&batch.JobLogOptions{Follow: true}, j, now); said == c.want {
			t.Errorf("%s: told that it waits: %v", name, said)
		}
		if mustSayWaits(&batch.JobLogOptions{Follow: true, Missing: true}, j, now) || mustSayWaits(&batch.JobLogOptions{}, j, now) {
			t.Errorf("%s: told what is known already", name)
		}
	}
}
