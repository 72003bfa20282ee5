package admit

import (
	"context"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// A pod with such a rule is alone on the machine for as long as it likes.
func TestNobodyKeepsThePodsOfOthersAway(t *testing.T) {
	access := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		of := a.GetNamespace()
		if a.GetVerb() != "create" || a.GetResource() != "things" || a.GetAPIGroup() != "batch" {
			t.Errorf("asked about %v", a)
		}
		switch a.GetUser().GetName() {
		case "admin":
			return authorizer.DecisionAllow, "", nil
		case "member":
			if of == "mine" || of == "also-mine" {
				return authorizer.DecisionAllow, "", nil
			}
		}
		return authorizer.DecisionNoOpinion, "", nil
	})
	term := func(selector *metav1.LabelSelector, namespaces ...string) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{
			NamespaceSelector: selector, Namespaces: namespaces, TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{},
		}
	}
	named := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}}
	}
	labelled := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	of := func(terms ...corev1.PodAffinityTerm) corev1.PodSpec {
		return corev1.PodSpec{Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}}
	}
	pod := func(terms ...corev1.PodAffinityTerm) runtime.Object { return &corev1.Pod{Spec: of(terms...)} }
	job := func(terms ...corev1.PodAffinityTerm) runtime.Object {
		j := &batchv1.Job{}
		j.Spec.Template.Spec = of(terms...)
		return j
	}
	cronJob := &batchv1.CronJob{}
	cronJob.Spec.JobTemplate.Spec.Template.Spec = of(term(&metav1.LabelSelector{}))
	set := &jobsetv1.JobSet{}
	set.Spec.ReplicatedJobs = make([]jobsetv1.ReplicatedJob, 2)
	set.Spec.ReplicatedJobs[1].Template.Spec.Template.Spec = of(term(&metav1.LabelSelector{}))
	beside, wish := pod(term(nil)).(*corev1.Pod), pod(term(nil)).(*corev1.Pod)
	all := []corev1.PodAffinityTerm{term(&metav1.LabelSelector{})}
	beside.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: all}
	wish.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: all[0]}}
	for what, c := range map[string]struct {
		obj, old    runtime.Object
		who         string
		subresource string
		refused     bool
	}{
		"a pod":                                     {obj: pod(term(&metav1.LabelSelector{})), who: "member", refused: true},
		"a Job":                                     {obj: job(term(&metav1.LabelSelector{})), who: "member", refused: true},
		"a CronJob":                                 {obj: cronJob, who: "member", refused: true},
		"a group of a JobSet":                       {obj: set, who: "member", refused: true},
		"by labels that namespaces may get":         {obj: pod(term(labelled)), who: "member", refused: true},
		"by the name of another namespace":          {obj: pod(term(nil, "mine", "theirs")), who: "member", refused: true},
		"by the label that is its name":             {obj: pod(term(named("theirs"))), who: "member", refused: true},
		"by a selector beside names":                {obj: pod(term(&metav1.LabelSelector{}, "mine")), who: "member", refused: true},
		"by names beside a selector":                {obj: pod(term(named("mine"), "theirs")), who: "member", refused: true},
		"by the second term":                        {obj: pod(term(nil), term(nil, "theirs")), who: "member", refused: true},
		"a Job that gets it":                        {obj: job(term(nil, "theirs")), old: job(term(nil)), who: "member", refused: true},
		"a Job that has it":                         {obj: job(term(nil), term(nil, "theirs")), old: job(term(nil, "theirs")), who: "member"},
		"the status of a pod":                       {obj: pod(term(&metav1.LabelSelector{})), who: "member", subresource: "status"},
		"those of its own namespace":                {obj: pod(term(nil)), who: "member"},
		"those of its own, by name":                 {obj: pod(term(nil, "mine")), who: "member"},
		"those of its own, by the label":            {obj: pod(term(named("mine"))), who: "member"},
		"those of another namespace of one's own":   {obj: pod(term(nil, "also-mine"), term(named("also-mine"))), who: "member"},
		"who must be there":                         {obj: beside, who: "member"},
		"who would rather not be there":             {obj: wish, who: "member"},
		"by who may create such objects everywhere": {obj: pod(term(&metav1.LabelSelector{}, "theirs")), who: "admin"},
		"something that has no pods":                {obj: &corev1.ConfigMap{}, who: "member"},
	} {
		op := admission.Create
		if c.old != nil {
			op = admission.Update
		}
		a := admission.NewAttributesRecord(c.obj, c.old, schema.GroupVersionKind{}, "mine", "x",
			schema.GroupVersionResource{Group: "batch", Resource: "things"}, c.subresource, op, nil, false, &user.DefaultInfo{Name: c.who})
		err := Apart{access}.Validate(t.Context(), a, nil)
		if got := apierrors.IsForbidden(err); got != c.refused || err != nil && !got {
			t.Errorf("%s: %v", what, err)
		}
	}
}
