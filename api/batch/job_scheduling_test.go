package batch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestSchedulingOfJobs(t *testing.T) {
	for _, tc := range []struct{ name, spec, want string }{
		{"a gang of all", `{parallelism: 3, scheduling: {schedulingPolicy: {gang: {}}}}`, ""},
		{"a gang of some", `{parallelism: 3, scheduling: {schedulingPolicy: {gang: {minCount: 2}}, disruptionMode: {all: {}}}}`, ""},
		{"no gang", `{scheduling: {schedulingPolicy: {basic: {}}}}`, ""},
		{"nothing said", `{scheduling: {}}`, ""},
		{"a gang is not larger than the Job", `{parallelism: 3, scheduling: {schedulingPolicy: {gang: {minCount: 4}}}}`,
			"spec.scheduling.schedulingPolicy.gang.minCount: Invalid value: 4: must not be greater than parallelism (3)"},
		{"a gang has a pod", `{parallelism: 3, scheduling: {schedulingPolicy: {gang: {minCount: -1}}}}`,
			"spec.scheduling.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1"},
		{"there is one policy", `{scheduling: {schedulingPolicy: {gang: {}, basic: {}}}}`,
			"spec.scheduling.schedulingPolicy: Invalid value: \"{basic, gang}\": must specify exactly one of: `basic`, `gang`"},
		{"only a gang makes way as a whole", `{scheduling: {disruptionMode: {all: {}}}}`,
			"spec.scheduling.disruptionMode: Invalid value: \"\": the disruptionMode `all` is not supported with the Basic scheduling policy"},
		{"there are no claims", `{scheduling: {resourceClaims: [{name: a, resourceClaimName: b}]}}`,
			"spec.scheduling.resourceClaims: Forbidden: jobd does not support this: there are no ResourceClaims"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, said(create(minimalJob(t, "j", tc.spec), "u1"))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestChangesOfScheduling(t *testing.T) {
	for _, tc := range []struct{ name, was, now, want string }{
		{
			"the count of a gang may change", `{parallelism: 3, scheduling: {schedulingPolicy: {gang: {minCount: 3}}}}`,
			`{parallelism: 3, scheduling: {schedulingPolicy: {gang: {minCount: 2}}}}`, "",
		},
		{
			"with the Job's size", `{parallelism: 3, scheduling: {schedulingPolicy: {gang: {minCount: 3}}}}`,
			`{parallelism: 5, scheduling: {schedulingPolicy: {gang: {minCount: 5}}}}`, "",
		},
		{
			"it may not be set later", `{}`, `{scheduling: {schedulingPolicy: {gang: {}}}}`,
			"spec.scheduling: Invalid value: null: field cannot be set once created",
		},
		{"nor taken away", `{scheduling: {}}`, `{}`, "spec.scheduling: Invalid value: null: field cannot be cleared once set"},
		{"a gang remains one", `{scheduling: {schedulingPolicy: {gang: {}}}}`, `{scheduling: {schedulingPolicy: {basic: {}}}}`,
			"spec.scheduling.schedulingPolicy.basic: Invalid value: {}: field is " +
				"immutable\nspec.scheduling.schedulingPolicy.gang: Invalid value: null: field cannot be cleared once set"},
		{"how it makes way remains", `{scheduling: {schedulingPolicy: {gang: {}}}}`, `{scheduling: {schedulingPolicy: {gang: {}}, disruptionMode: {all: {}}}}`,
			`spec.scheduling.disruptionMode: Invalid value: {"all":{}}: field is immutable`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old, job := minimalJob(t, "j", tc.was), minimalJob(t, "j", tc.now)
			create(old, "u1")
			create(job, "u1")
			old.ResourceVersion, job.ResourceVersion = "1", "1"
			if diff := cmp.Diff(tc.want, said(validateJobUpdate(job, old))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestWhichJobsAreGangsByThemselves(t *testing.T) {
	for _, tc := range []struct {
		name, spec string
		want       bool
	}{
		{"an Indexed Job with all indexes at a time", `{completionMode: Indexed, completions: 3, parallelism: 3}`, true},
		{"not with some of them", `{completionMode: Indexed, completions: 3, parallelism: 2}`, false},
		{"not of one pod", `{completionMode: Indexed, completions: 1}`, false},
		{"not without indexes", `{completions: 3, parallelism: 3}`, false},
		{"not if it says something itself", `{completionMode: Indexed, completions: 3, parallelism: 3, scheduling: {}}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := minimalJob(t, "j", tc.spec)
			create(old, "u1")
			if got := automaticGang(&old.Spec); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
			job := old.DeepCopy()
			job.Spec.Parallelism = ptr.To[int32](7)
			if refused := strings.Contains(said(ValidateAutomaticGangUpdate(job, old)), "spec.parallelism"); refused != tc.want {
				t.Errorf("another size refused: %v, want %v", refused, tc.want)
			}
		})
	}
}

func TestSchedulingThatHasNoEffectIsWarnedOf(t *testing.T) {
	for _, tc := range []struct{ name, spec, want string }{
		{"a gang", `{scheduling: {schedulingPolicy: {gang: {}}}}`, ""},
		{
			"there is one node", `{scheduling: {schedulingConstraints: {topology: [{key: zone}]}}}`,
			"spec.scheduling.schedulingConstraints: has no effect in jobd: there is one node",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			job := minimalJob(t, "j", tc.spec)
			if got := strings.Join(jobWarnings(job), "\n"); got != tc.want {
				t.Error(got)
			}
			if tc.want == "" {
				job.Spec.Template.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("mine")}
				if got := strings.Join(jobWarnings(job), "\n"); got != "spec.scheduling: has no effect: the pods are of a group that the template names" {
					t.Error(got)
				}
			}
		})
	}
}
