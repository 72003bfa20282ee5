package jobset

import (
	"fmt"

	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// Dependency is what a group waits for: that all Jobs of another one are ready, or complete.
type Dependency struct {
	On     string
	Status jobsetv1.DependsOnStatus
	// InOrder: it is so by the startup policy, and not by dependsOn.
	InOrder bool
	// Has is how many Jobs of the other group are as they have to be, Of how many have to be; -1 if there is no such group.
	Has, Of int32
}

// Met reports whether it is so now.
func (d Dependency) Met() bool { return d.Has == d.Of }

// What is Status as people say it of Jobs.
func (d Dependency) What() string {
	if d.Status == jobsetv1.DependencyComplete {
		return "complete"
	}
	return "ready"
}

// Words say until when the group waits.
func (d Dependency) Words() string {
	said := fmt.Sprintf("until all Jobs of %s are %s: %d of %d are.", d.On, d.What(), d.Has, max(0, d.Of))
	if d.InOrder {
		said += " (startupPolicy InOrder)"
	}
	return said
}

// Dependencies returns what each group of a JobSet waits for before it begins, by the status of the JobSet. With InOrder that is the first
// group before it that has not begun, else the last one.
func Dependencies(js *jobsetv1.JobSet) [][]Dependency {
	groups := js.Spec.ReplicatedJobs
	counts, replicas := make(map[string]jobsetv1.ReplicatedJobStatus, len(groups)), make(map[string]int32, len(groups))
	for _, s := range js.Status.ReplicatedJobsStatus {
		counts[s.Name] = s
	}
	for i := range groups {
		replicas[groups[i].Name] = groups[i].Replicas
	}
	on := func(name string, status jobsetv1.DependsOnStatus) Dependency {
		s := counts[name]
		d := Dependency{On: name, Status: status, Has: s.Ready + s.Succeeded + s.Failed, Of: -1}
		if status == jobsetv1.DependencyComplete {
			d.Has = s.Succeeded
		}
		if of, ok := replicas[name]; ok {
			d.Of = of
		}
		return d
	}
	all := make([][]Dependency, len(groups))
	var before *Dependency // the first that has not begun, else the last
	for i := range groups {
		for _, d := range groups[i].DependsOn {
			all[i] = append(all[i], on(d.Name, d.Status))
		}
		if !InOrder(js) {
			continue
		}
		if before != nil {
			all[i] = append(all[i], *before)
		}
		if before == nil || before.Met() {
			d := on(groups[i].Name, jobsetv1.DependencyReady)
			d.InOrder, before = true, &d
		}
	}
	return all
}
