package progress

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestLabels(t *testing.T) {
	one, many, queue, sidecar := &batchv1.Job{}, indexed(20), &batchv1.Job{}, &batchv1.Job{}
	queue.Spec.Parallelism = ptr.To[int32](3)
	sidecar.Spec.Template.Spec.Containers = []corev1.Container{{Name: "train"}, {Name: "metrics"}}
	both := many.DeepCopy()
	both.Spec.Template = sidecar.Spec.Template
	at := Source{Pod: "sweep-17-abcde", Container: "train", Index: ptr.To(17), Stream: "stderr"}
	values, again := at, at
	values.Values, again.Try, again.Restart = "lr=0.1 note=\"a\x1b[2Jb, and much more than fits\"", 2, 1
	for rule, c := range map[string]struct {
		job  *batchv1.Job
		full bool
		of   Source
		want string
	}{
		"one pod has none":                       {one, false, at, ""},
		"unless they are asked for":              {one, true, at, "[pod/sweep-17-abcde/train index=17 stderr] "},
		"an index is its number":                 {many, false, at, "[17] "},
		"with its values, which fit":             {many, false, values, "[17 lr=0.1 note=\"ab, and mu…] "},
		"another pod is the end of its name":     {queue, false, Source{Pod: "pi-x7k2p"}, "[x7k2p] "},
		"a container is named if there are more": {sidecar, false, Source{Pod: "a-b", Container: "metrics"}, "[metrics] "},
		"or both":                                {both, false, at, "[17 train] "},
		"what is not the first says so":          {many, false, again, "[17 try=2 restart=1] "},
		"a label of its own stays":               {many, false, Source{Pod: "a-b", Label: "[workers/0] "}, "[workers/0] "},
	} {
		got := LabelsOf(c.job, c.full, false).Of(c.of)
		if got != c.want {
			t.Errorf("%s: %q, want %q", rule, got, c.want)
		}
		colored := LabelsOf(c.job, c.full, true).Of(c.of)
		painted := strings.HasPrefix(colored, "\x1b[3") && strings.HasSuffix(colored, "\x1b[0m ")
		if c.want != "" && (!painted || !strings.Contains(colored, strings.TrimSpace(got))) {
			t.Errorf("%s: in color %q", rule, colored)
		}
	}
	next := at
	next.Index = ptr.To(18)
	color := func(s Source) string { return LabelsOf(many, false, true).Of(s)[:5] }
	if color(at) == color(next) || color(at) != color(again) {
		t.Errorf("colors: %q, %q, %q", color(at), color(next), color(again))
	}
}
