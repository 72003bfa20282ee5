package main

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/history"
)

func TestResults(t *testing.T) {
	index := func(i int, pod, result, message string, names ...string) Result {
		r := Result{Index: &i, Pod: pod, Result: result, Message: message, names: names}
		for _, name := range names {
			if r.Values == nil {
				r.Values = map[string]string{}
			}
			r.Values[name] = "v" + name
		}
		return r
	}
	there := []Result{
		index(1, "b", "Failed", "second", "lr", "pod"), index(1, "c", "Succeeded", "third\n", "lr", "pod"), index(1, "d", "Failed", "later"),
		index(0, "e", "Failed", ""), {Pod: "plain", Result: "Succeeded", Message: "42"},
	}
	past := []history.Pod{
		{Name: "a", Index: "0", Result: "Failed", Message: "of the history", Values: []batch.IndexValue{{Name: "lr", Value: "1"}}},
		{Name: "b", Index: "1", Result: "Failed", Message: "not of the history"},
	}
	all := oneOfEach(append(withPast(there, past), index(0, "", "Waiting", ""), index(2, "", "Waiting", "", "lr")))
	r := &Results{Items: all}
	var out bytes.Buffer
	if err := r.csv(&out); err != nil {
		t.Fatal(err)
	}
	want := `index,lr,param.pod,result,exitCode,reason,pod,message
0,1,,Failed,,,e,
,,,Succeeded,,,plain,42
1,vlr,vpod,Succeeded,,,c,third
2,vlr,,Waiting,,,,
`
	if out.String() != want {
		t.Errorf("%s, want\n%s", out.String(), want)
	}
	out.Reset()
	r = &Results{Items: []Result{{Pod: "x", Result: "Failed", ExitCode: ptr.To(3), Message: "a\tb\nc\x1b[2J"}}}
	if err := r.table(genericiooptions.IOStreams{Out: &out}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(out.String(), "\n"); len(lines) != 3 || strings.ContainsAny(out.String(), "\x1b\t") ||
		!slices.Equal(strings.Fields(lines[0]), []string{"POD", "RESULT", "EXIT", "MESSAGE"}) {
		t.Errorf("%q", out.String())
	}
	// What has left nothing says at least what its exit code does not: 137 may be its memory or its deadline.
	for want, r := range map[string]Result{
		"OOMKilled": {Reason: "OOMKilled"}, "": {Reason: "Error"}, "mine": {Reason: "OOMKilled", Message: " mine\n"},
	} {
		if got := r.said(); got != want {
			t.Errorf("%+v: %q, want %q", r, got, want)
		}
	}
}

func TestRetryByValues(t *testing.T) {
	j := &batchv1.Job{}
	j.Name, j.Spec.Completions, j.Status.CompletedIndexes = "sweep", ptr.To[int32](4), "1,3"
	values := &batch.IndexValues{
		IndexEnv: batch.IndexEnv{Keys: []string{"lr", "bs"}},
		Data:     map[string]string{"0.lr": "1", "1.lr": "1", "2.lr": "2", "3.lr": "2", "0.bs": "x", "1.bs": "y", "2.bs": "x", "3.bs": "y"},
	}
	for _, c := range []struct {
		given, want, refused string
	}{
		{"lr=1", "0", ""}, {"bs=x", "0,2", ""}, {"bs=x lr=2", "2", ""}, {"lr=1 lr=2", "0,2", ""}, {"bs=y", "", "all indexes with bs=y have succeeded"},
		{"lr=3", "", "no index has lr=3"}, {"x=1", "", `no variable "x", only lr, bs`}, {"lr", "", "NAME=VALUE"},
	} {
		got, err := withValues(j, values, strings.Fields(c.given))
		if got != c.want || (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %q %v", c.given, got, err)
		}
	}
	j.Spec.Completions = ptr.To[int32](math.MaxInt32)
	if got, err := withValues(j, values, []string{"bs=x"}); got != "0,2" || err != nil {
		t.Errorf("of a Job with more indexes than values: %q %v", got, err)
	}
	if _, err := withValues(j, nil, []string{"lr=1"}); err == nil {
		t.Error("of a Job without values")
	}
	array := &batch.IndexValues{Array: batch.Array{{First: 1, Step: 2, Count: 4}}}
	for given, want := range map[string]string{
		"task=1 task=3 task=5": "0,2", "task=4": "no index has task=4", "task=7": "all indexes with task=7 have succeeded",
	} {
		if got, err := withValues(j, array, strings.Fields(given)); got != want && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("tasks, %s: %q %v", given, got, err)
		}
	}
}
