package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jobd/jobd/runtime/simulated"
)

// jobSets measures JobSets as they grow: of more Jobs, each of ten pods, and of longer chains of groups, each of which waits for the one
// before. The pods are simulated and succeed at once.
func (b *bench) jobSets(ctx context.Context) error {
	b.report.table("JobSets of simulated pods", "JobSet", "s", "CPU s", "CPU ms a Job", "RssAnon MB, before", "after")
	for _, c := range []struct {
		name       string
		jobs, pods int
		chain      bool
	}{
		{"100 Jobs of 10 pods", 100, 10, false}, {"1,000 Jobs of 10 pods", 1000, 10, false},
		{"a chain of 25 groups", 25, 1, true}, {"a chain of 100 groups", 100, 1, true},
	} {
		if err := b.jobSet(ctx, c.name, c.jobs, c.pods, c.chain); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

func (b *bench) jobSet(ctx context.Context, name string, jobs, pods int, chain bool) error {
	d, err := b.start(ctx, "--runtime", "simulated")
	if err != nil {
		return err
	}
	defer d.close()
	before, begin := d.self(), time.Now()
	if _, err := d.Jobctl(ctx, strings.NewReader(setOf(jobs, pods, chain)), "create", "-f", "-"); err != nil {
		return err
	}
	if err := d.Until(ctx, "it is complete", 50*time.Millisecond, func() error {
		body, err := d.Get(ctx, "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/s")
		if err == nil && !strings.Contains(string(body), `"terminalState":"Completed"`) {
			err = fmt.Errorf("it is not")
		}
		return err
	}); err != nil {
		return err
	}
	took, after := time.Since(begin), d.self()
	b.report.row(name, fmt.Sprintf("%.1f", took.Seconds()), fmt.Sprintf("%.1f", after.CPU-before.CPU),
		fmt.Sprintf("%.1f", (after.CPU-before.CPU)*1000/float64(jobs)), fmt.Sprintf("%.0f", before.Anon), fmt.Sprintf("%.0f", after.Anon))
	b.report.figure("JobSets/"+strings.NewReplacer(" ", "-", ",", "").Replace(name), []float64{(after.CPU - before.CPU) * 1000 / float64(jobs)}, "ms/Job")
	return nil
}

// setOf is the manifest of a JobSet.
func setOf(jobs, pods int, chain bool) string {
	template := fmt.Sprintf(`template: {spec: {completions: %d, parallelism: %d, template: {metadata: {annotations: {%s: 0s}},
    spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}}}}`, pods, pods, simulated.Duration)
	var groups []string
	for i := range jobs {
		switch {
		case !chain:
			groups = []string{"{name: g, replicas: " + strconv.Itoa(jobs) + ", " + template}
		case i == 0:
			groups = append(groups, "{name: g0, "+template)
		default:
			groups = append(groups, fmt.Sprintf("{name: g%d, dependsOn: [{name: g%d, status: Complete}], %s", i, i-1, template))
		}
	}
	return "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: s}\nspec:\n  replicatedJobs:\n  - " + strings.Join(groups, "\n  - ") + "\n"
}
