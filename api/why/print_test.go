package why

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAnExplanationIsPrintedAsSentences(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	at := func(d time.Duration) *metav1.Time { t := metav1.NewTime(now.Add(d)); return &t }
	e := &Explanation{
		Object: Reference{Kind: "Job", Namespace: "default", Name: "pi"}, At: metav1.NewTime(now), Source: FromAPI,
		Message: "waits.",
		Causes: []Cause{{
			Type: "BackOff", Message: "It waits " + strings.Repeat("and waits ", 12) + "for long.", Until: at(90 * time.Second),
			Help: []string{"jobctl annotate jobs/pi", "jobctl create configmap " + Word("x\x1b]52;c;\a\n$ 'y")},
			Causes: []Cause{{
				Type: "ExitCode", Object: &Reference{Kind: "Pod", Name: "pi-1"}, Message: "it has failed.", Since: at(-time.Minute),
				Log: []string{"a line\x1b[2J"},
			}},
		}},
	}
	var out strings.Builder
	if err := Print(&out, e); err != nil {
		t.Fatal(err)
	}
	want := `jobs/pi: waits.
- It waits and waits and waits and waits and waits and waits and waits and waits and waits and waits and waits
  and waits and waits for long. [until 03:05:35, in 90s]
  - pods/pi-1: it has failed. [60s ago]
    Its last lines:
      | a line` + "\uFFFD" + `[2J
  $ jobctl annotate jobs/pi
  $ jobctl create configmap 'x` + "\uFFFD" + `]52;c;` + "\uFFFD" + ` $ '\''y'
(This is based on the cluster's API alone; what only its scheduler and controllers know is not shown.)
`
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
	if Find(e.Causes, "ExitCode") == nil || Find(e.Causes, "OOMKilled") != nil {
		t.Error("Find does not look into what a cause follows from")
	}
}
