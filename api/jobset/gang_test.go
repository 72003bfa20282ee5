package jobset

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

func TestWhichPodsStartTogether(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*jobsetv1.JobSet)
		pods   int64
		others string // that are in no gang
		warns  string
		wrong  string
	}{
		"all": {func(*jobsetv1.JobSet) {}, 8, "", "", ""},
		"those that depend on others do not": {func(js *jobsetv1.JobSet) {
			js.Spec.ReplicatedJobs[1].DependsOn = []jobsetv1.DependsOn{{Name: "leader", Status: jobsetv1.DependencyReady}}
		}, 5, "workers", "the pods of leader, more start together; those of workers wait for other groups, and start one by one", ""},
		"in order, the first": {func(js *jobsetv1.JobSet) {
			js.Spec.StartupPolicy = &jobsetv1.StartupPolicy{StartupPolicyOrder: jobsetv1.InOrder}
		}, 1, "workers,more", "no two pods begin with the JobSet", ""},
		"no other value": {func(js *jobsetv1.JobSet) { js.Annotations[GangAnnotation] = "yes" }, 0, "leader,workers,more", "", `must be "true"`},
		"no gang in the gang": {func(js *jobsetv1.JobSet) {
			js.Spec.ReplicatedJobs[2].Template.Spec.Scheduling = &batchv1.JobSchedulingConfiguration{}
		}, 8, "", "", "spec.replicatedJobs[2].template.spec.scheduling: Forbidden"},
		"no other group": {func(js *jobsetv1.JobSet) {
			js.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("g")}
		}, 8, "", "", "spec.replicatedJobs[0].template.spec.template.spec.schedulingGroup: Forbidden"},
		"more than can be counted": {func(js *jobsetv1.JobSet) {
			for i := range js.Spec.ReplicatedJobs {
				js.Spec.ReplicatedJobs[i].Template.Spec = batchv1.JobSpec{Parallelism: ptr.To[int32](1 << 30)}
			}
		}, 7 << 30, "", "", "no more than 2147483647 pods can start together"},
	} {
		js := &jobsetv1.JobSet{}
		js.Name, js.Annotations = "s", map[string]string{GangAnnotation: "true"}
		js.Spec.ReplicatedJobs = []jobsetv1.ReplicatedJob{{Name: "leader", Replicas: 1}, {Name: "workers", Replicas: 3}, {Name: "more", Replicas: 2}}
		js.Spec.ReplicatedJobs[2].Template.Spec = batchv1.JobSpec{Parallelism: ptr.To[int32](9), Completions: ptr.To[int32](2)}
		if name == "more than can be counted" {
			js.Spec.ReplicatedJobs[0].Replicas = 2
		}
		c.change(js)
		_, others := GangGroups(js)
		if n := GangPods(js); n != c.pods || strings.Join(others, ",") != c.others {
			t.Errorf("%s: %d pods, not %v", name, n, others)
		}
		if said := strings.Join(gangWarnings(js), "\n"); !strings.Contains(said, c.warns) || c.warns == "" && said != "" {
			t.Errorf("%s: warns %q", name, said)
		}
		errs := validateGang(js, nil, nil)
		if said := errs.ToAggregate(); (said == nil) != (c.wrong == "") || said != nil && !strings.Contains(said.Error(), c.wrong) {
			t.Errorf("%s: %v", name, said)
		}
		for i := range js.Spec.ReplicatedJobs {
			group := &js.Spec.ReplicatedJobs[i]
			if g := NewJob(js, group, 0).Spec.Template.Spec.SchedulingGroup; InGang(js, group) != (g != nil && *g.PodGroupName == "s-gang-0") {
				t.Errorf("%s: group %s has %v", name, group.Name, g)
			}
		}
		if errs := validateGang(js, map[string]string{}, nil); len(errs) != 1 || !strings.Contains(errs[0].Error(), "cannot be changed") {
			t.Errorf("%s: a change: %v", name, errs)
		}
	}
}
