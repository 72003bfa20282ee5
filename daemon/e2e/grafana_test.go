package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

var (
	// What the expressions of a dashboard are made of, as far as it matters which metrics and labels they name.
	promStrings   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	promRanges    = regexp.MustCompile(`\[[^\]]*\]`)
	promGroupings = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	promSelectors = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{([^}]*)\}`)
	promMatchers  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	promNames     = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*(?:\s*\()?`)
	promOperators = []string{"and", "or", "unless", "bool", "offset", "inf", "nan"}
	legendLabels  = regexp.MustCompile(`\{\{(.*?)\}\}`)
)

// promNeeds returns which metrics an expression of PromQL reads, with the labels that it selects them by, and the labels by which
// it groups.
func promNeeds(expr string) (metrics map[string][]string, groups []string) {
	metrics = map[string][]string{}
	expr = promRanges.ReplaceAllString(promStrings.ReplaceAllString(expr, ""), "")
	for _, g := range promGroupings.FindAllStringSubmatch(expr, -1) {
		groups = append(groups, strings.FieldsFunc(g[1], func(r rune) bool { return r == ',' || r == ' ' })...)
	}
	expr = promGroupings.ReplaceAllString(expr, "")
	for _, s := range promSelectors.FindAllStringSubmatch(expr, -1) {
		for _, m := range promMatchers.FindAllStringSubmatch(s[2], -1) {
			metrics[s[1]] = append(metrics[s[1]], m[1])
		}
	}
	for _, name := range promNames.FindAllString(promSelectors.ReplaceAllString(expr, "$1"), -1) {
		if !strings.HasSuffix(name, "(") && !slices.Contains(promOperators, name) && metrics[name] == nil {
			metrics[name] = []string{}
		}
	}
	return metrics, groups
}

func TestPromNeeds(t *testing.T) {
	metrics, groups := promNeeds(`sum by (le, a) (rate(x_bucket{b="by (c)", d=~"$e"}[$__rate_interval])) / on (f) (g > 0) unless h - time() or vector(0)`)
	if got := fmt.Sprint(metrics, groups); got != "map[g:[] h:[] x_bucket:[b d]] [le a f]" {
		t.Error(got)
	}
}

// TestGrafanaDashboard compares docs/grafana/jobd.json with the metrics of a machine on which something of everything has happened: each
// expression names metrics that exist, with their labels.
func TestGrafanaDashboard(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/grafana/jobd.json")
	if err != nil {
		t.Fatal(err)
	}
	var page struct {
		Panels []struct {
			ID      int
			Title   string
			Type    string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &page); err != nil {
		t.Fatal(err)
	}
	d := start(t, "--manifests", t.TempDir(), "--config", receivers(t, "  nobody: {command: {args: [/bin/false]}}\n"))
	const some = `spec: {restartPolicy: Never, containers: [{name: c, image: "busybox:1.36", command: [sh, -c, "exit 0"]}]}`
	d.apply(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 16Mi}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: runs}
spec:
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers:
      - {name: c, image: "busybox:1.36", command: [sleep, "1000"], resources: {limits: {memory: 64Mi}}, volumeMounts: [{name: v, mountPath: /v}]}
      volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: fails, annotations: {jobd.dev/notify: "nobody,somebody"}}
spec: {backoffLimit: 0, template: {` + strings.Replace(some, "exit 0", "exit 1", 1) + `}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, annotations: {jobd.dev/expect-success-every: 26h}}
spec: {schedule: "0 0 1 1 *", jobTemplate: {spec: {template: {` + some + `}}}}
`)
	d.running("runs", 1)
	d.jobctl("create", "job", "now", "--from", "cronjob/nightly")
	d.complete("now")
	d.failed("fails", "BackoffLimitExceeded")

	d.eventually("the metrics of the dashboard", func() error {
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(d.jobctl("get", "--raw", "/metrics")))
		if err != nil {
			return err
		}
		// labelsOf returns the labels that metrics of a name have; nil if there are none.
		labelsOf := func(name string) map[string]bool {
			of, labels := families[name], map[string]bool{}
			if histogram, ok := strings.CutSuffix(name, "_bucket"); of == nil && ok {
				of, labels["le"] = families[histogram], true
			}
			if of == nil || labels["le"] != (of.GetType().String() == "HISTOGRAM") {
				return nil
			}
			for _, m := range of.Metric {
				for _, l := range m.Label {
					labels[l.GetName()] = true
				}
			}
			return labels
		}
		var wrong []string
		for _, p := range page.Panels {
			if p.Type != "row" && len(p.Targets) == 0 {
				wrong = append(wrong, p.Title+": it shows nothing")
			}
			for _, target := range p.Targets {
				metrics, groups := promNeeds(target.Expr)
				has := map[string]bool{}
				for name, labels := range metrics {
					its := labelsOf(name)
					if its == nil {
						wrong = append(wrong, fmt.Sprintf("%s: there is no metric %s", p.Title, name))
						continue
					}
					for label := range its {
						has[label] = true
					}
					for _, label := range labels {
						if !its[label] {
							wrong = append(wrong, fmt.Sprintf("%s: %s has no label %s", p.Title, name, label))
						}
					}
				}
				for _, l := range legendLabels.FindAllStringSubmatch(target.LegendFormat, -1) {
					if !slices.Contains(groups, l[1]) {
						wrong = append(wrong, fmt.Sprintf("%s: what is shown has no label %s", p.Title, l[1]))
					}
				}
				for _, label := range groups {
					if !has[label] {
						wrong = append(wrong, fmt.Sprintf("%s: no metric has the label %s", p.Title, label))
					}
				}
			}
		}
		if len(wrong) > 0 {
			return fmt.Errorf("%s", strings.Join(wrong, "\n"))
		}
		return nil
	})
}
