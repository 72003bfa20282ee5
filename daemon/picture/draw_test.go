package picture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/picture"
)

var begin = time.Unix(1_800_000_000, 0)

func jobOf(completions int32, mode batchv1.CompletionMode) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x", UID: "u", CreationTimestamp: metav1.NewTime(begin)}}
	j.Spec.Completions, j.Spec.Parallelism, j.Spec.CompletionMode = &completions, ptr.To[int32](4), &mode
	j.Status.StartTime, j.Status.Active = &j.CreationTimestamp, 1
	return j
}

func ended(index, from, to, code int) *history.Pod {
	started := metav1.NewTime(begin.Add(time.Duration(from) * time.Second))
	p := &history.Pod{
		Name: fmt.Sprintf("x-%d-abcde", index), Index: strconv.Itoa(index), Started: &started,
		Ended: metav1.NewTime(begin.Add(time.Duration(to) * time.Second)), Result: history.PodSucceeded, ExitCode: &code,
		Use: history.Use{CPUSeconds: 1, PeakMemory: 50 << 20},
	}
	if code != 0 {
		p.Result, p.Reason = history.PodFailed, "Error"
		p.Containers = []history.Container{{Name: "c", ExitCode: code, Reason: "Error"}}
	}
	return p
}

func stop(j *batchv1.Job, how batchv1.JobConditionType) {
	j.Status.Conditions = []batchv1.JobCondition{{Type: how, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(begin.Add(time.Hour))}}
}

func TestStatesOfCells(t *testing.T) {
	indexed := func(change func(*batchv1.Job)) *batchv1.Job {
		j := jobOf(5, batchv1.IndexedCompletion)
		change(j)
		return j
	}
	for name, c := range map[string]struct {
		job     *batchv1.Job
		ended   []*history.Pod
		running []Running
		want    string
	}{
		"nothing has run": {job: indexed(func(*batchv1.Job) {}), want: "w5"},
		"the status decides": {
			job:  indexed(func(j *batchv1.Job) { j.Status.CompletedIndexes, j.Status.FailedIndexes = "0,2-3", ptr.To("4") }),
			want: "sws2f",
		},
		"a pod that ended before the status says so": {job: indexed(func(*batchv1.Job) {}), ended: []*history.Pod{ended(1, 0, 1, 0)}, want: "wsw3"},
		"one that failed is run again": {
			job: indexed(func(*batchv1.Job) {}), ended: []*history.Pod{ended(1, 0, 1, 3), ended(2, 0, 1, 3)},
			running: []Running{{Name: "x-2-b", Index: 2, Since: begin.Unix()}}, want: "wbrw2",
		},
		"a failed Job runs nothing again": {
			job: indexed(func(j *batchv1.Job) { stop(j, batchv1.JobFailed) }), ended: []*history.Pod{ended(1, 0, 1, 3)}, want: "wfw3",
		},
		"a suspended Job": {
			job: indexed(func(j *batchv1.Job) { j.Spec.Suspend, j.Status.CompletedIndexes = ptr.To(true), "0" }), want: "sp4",
		},
		"a pod that is being stopped": {
			job: indexed(func(*batchv1.Job) {}), running: []Running{{Index: 0, Since: begin.Unix(), Stopping: true}}, want: "tw4",
		},
		"a Job that runs in a cluster, whose pods have no records here": {
			job: func() *batchv1.Job {
				j := jobOf(4, batchv1.NonIndexedCompletion)
				j.Spec.ManagedBy = ptr.To("clusters.jobd.dev/prod")
				j.Status.Succeeded, j.Status.Failed, j.Status.Ready = 2, 1, ptr.To[int32](1)
				return j
			}(),
			want: "s2fr",
		},
		"one that has ended there": {
			job: func() *batchv1.Job {
				j := jobOf(1, batchv1.NonIndexedCompletion)
				j.Spec.ManagedBy, j.Status.Succeeded = ptr.To("clusters.jobd.dev/prod"), 1
				stop(j, batchv1.JobComplete)
				return j
			}(),
			want: "s",
		},
		"a Job without indexes": {
			job: jobOf(4, batchv1.NonIndexedCompletion), ended: []*history.Pod{ended(0, 0, 1, 0), ended(0, 0, 2, 1)},
			running: []Running{{Index: -1, Since: begin.Unix()}}, want: "sfrw2",
		},
		"more indexes than cells": {
			job: func() *batchv1.Job {
				j := jobOf(400_000, batchv1.IndexedCompletion)
				j.Status.CompletedIndexes = "0-7,9"
				return j
			}(),
			running: []Running{{Index: 399_999, Since: begin.Unix()}}, want: "s2w99997r",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := NewEnded("x", *c.job.Spec.CompletionMode == batchv1.IndexedCompletion)
			for _, p := range c.ended {
				a.Add(p)
			}
			d := Draw(Subject{Job: c.job}, a, c.running, begin.Add(time.Minute))
			if d.Cells.States != c.want {
				t.Errorf("got %q, want %q", d.Cells.States, c.want)
			}
			n := 0
			for _, k := range d.Job.Counts {
				n += k
			}
			if want := max(d.Cells.Count, int(*c.job.Spec.Completions)); n != want {
				t.Errorf("the counts %v are not those of %d", d.Job.Counts, want)
			}
		})
	}
}

func TestFailuresAreGroupedByCodeAndLine(t *testing.T) {
	a := NewEnded("x", true)
	a.Add(ended(3, 0, 1, 1))
	a.Add(ended(7, 0, 2, 1))
	a.Add(ended(8, 0, 3, 137))
	a.ReadLines(10, func(pod, container string) string {
		if container != "c" {
			t.Errorf("container %q of %s", container, pod)
		}
		return "no row 12 in " + pod[:1] + "</script>"
	})
	d := Draw(Subject{Job: jobOf(10, batchv1.IndexedCompletion)}, a, nil, begin)
	got := d.Failures.Groups
	if len(got) != 2 || got[0].Cells != "3,7" || got[0].Pods != 2 || *got[0].ExitCode != 1 || got[0].Line != "no row 12 in x</script>" ||
		got[0].Pod != "x-7-abcde" || got[1].Cells != "8" {
		t.Errorf("got %+v", got)
	}
	for _, g := range a.Failures(d, false).Groups {
		if g.Line != "" {
			t.Errorf("line %q for somebody who may not read logs", g.Line)
		}
	}
}

func TestAttemptsOfACell(t *testing.T) {
	a := NewEnded("x", true)
	a.Add(ended(3, 0, 1, 1))
	odd := *ended(3, 2, 4, 0)
	odd.Name = "adopted"
	a.Tail([]history.Pod{odd})
	a.Tail([]history.Pod{odd, *ended(4, 0, 1, 0)})
	got := a.Of(3, 1, []Running{{Name: "r", Index: 3}})
	if len(got) != 3 || got[0].Pod != "x-3-abcde" || *got[0].ExitCode != 1 || got[1].Pod != "adopted" || got[1].Ended-got[1].Started != 2 ||
		got[1].PeakMemory != 50<<20 || got[2].State != "r" {
		t.Errorf("got %+v", got)
	}
	if a.Len() != 3 {
		t.Errorf("%d pods", a.Len())
	}
}

// Whatever changes, what somebody has put together from answers to cursors is the whole picture.
func TestRollTellsAllThatHasChanged(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	j := jobOf(300, batchv1.IndexedCompletion)
	a := NewEnded("x", true)
	var roll Roll
	var states, details []byte
	cursor := uint64(0)
	for step := range 300 {
		for range r.IntN(4) {
			a.Add(ended(r.IntN(300), 0, 1+r.IntN(1+step), r.IntN(2)))
		}
		if r.IntN(50) == 0 {
			j.Spec.Suspend = ptr.To(r.IntN(2) == 0)
		}
		d := Draw(Subject{Job: j}, a, []Running{{Index: int32(r.IntN(300)), Since: begin.Unix()}}, begin.Add(time.Duration(step)*time.Second))
		if _, err := roll.Show(d); err != nil {
			t.Fatal(err)
		}
		if r.IntN(3) == 0 {
			continue // nobody has looked
		}
		p, ok := roll.Since(cursor)
		if !ok {
			p = roll.Whole()
		}
		cursor = roll.At()
		if p.Cells != nil {
			states, _ = picture.Symbols(p.Cells.States, picture.MaxCells)
			details, _ = picture.Symbols(p.Cells.Details, picture.MaxCells)
		}
		if c := p.Changed; c != nil {
			s, err := picture.Symbols(c.States, 300)
			if err != nil {
				t.Fatal(err)
			}
			more, _ := picture.Symbols(c.Details, 300)
			for run := range slices.Chunk(c.Cells, 2) {
				copy(states[run[0]:run[0]+run[1]], s)
				copy(details[run[0]:run[0]+run[1]], more)
				s, more = s[run[1]:], more[run[1]:]
			}
		}
		if !bytes.Equal(states, d.states) || !bytes.Equal(details, d.details) {
			t.Fatalf("step %d: got\n%s\nwant\n%s", step, states, d.states)
		}
	}
}

// large is a Job of 100,000 indexes that have taken any time, one in a hundred of them twice.
func large() (*batchv1.Job, *Ended) {
	r := rand.New(rand.NewPCG(3, 4))
	j := jobOf(100_000, batchv1.IndexedCompletion)
	j.Status.CompletedIndexes = "0-4710,4712-99999"
	stop(j, batchv1.JobFailed)
	a := NewEnded("x", true)
	for i := range 100_000 {
		at := i / 8 * 100
		if r.IntN(100) == 0 || i == 4711 {
			a.Add(ended(i, at, at+r.IntN(50), 1+r.IntN(3)))
		}
		if i != 4711 {
			a.Add(ended(i, at, at+r.IntN(100), 0))
		}
	}
	return j, a
}

func TestPictureOfALargeJobIsSmall(t *testing.T) {
	j, a := large()
	text, err := json.Marshal(Draw(Subject{Job: j}, a, nil, begin).Picture)
	if err != nil || len(text) > 200_000 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

func BenchmarkPictureOf100000Indexes(b *testing.B) {
	j, a := large()
	size := 0
	for b.Loop() {
		text, _ := json.Marshal(Draw(Subject{Job: j}, a, nil, begin).Picture)
		size = len(text)
	}
	b.ReportMetric(float64(size), "bytes")
}
