package podspec

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// Whatever makes pods is looked at by the rules about what may be in them.
func TestAllSpecsOfPods(t *testing.T) {
	set := &jobsetv1.JobSet{Spec: jobsetv1.JobSetSpec{ReplicatedJobs: make([]jobsetv1.ReplicatedJob, 2)}}
	for _, c := range []struct {
		obj  runtime.Object
		want []string
	}{
		{&corev1.Pod{}, []string{"spec"}},
		{&batchv1.Job{}, []string{"spec.template.spec"}},
		{&batchv1.CronJob{}, []string{"spec.jobTemplate.spec.template.spec"}},
		{set, []string{"spec.replicatedJobs[0].template.spec.template.spec", "spec.replicatedJobs[1].template.spec.template.spec"}},
		{&corev1.ConfigMap{}, nil},
		{nil, nil},
	} {
		var at []string
		for t, path := range Templates(c.obj) {
			t.Spec.NodeName = "changed"
			at = append(at, path.String())
		}
		if !slices.Equal(at, c.want) {
			t.Errorf("%T: %q, want %q", c.obj, at, c.want)
		}
	}
	if set.Spec.ReplicatedJobs[1].Template.Spec.Template.Spec.NodeName != "changed" {
		t.Error("the specs are copies")
	}
}

func TestContainersAreAllOfThemInOrder(t *testing.T) {
	spec := &corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "a"}, {Name: "b"}},
		Containers:     []corev1.Container{{Name: "c"}},
		EphemeralContainers: []corev1.EphemeralContainer{
			{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "d"}},
		},
	}
	var names []string
	for c := range Containers(spec) {
		names = append(names, c.Name)
		c.Image = "changed"
	}
	if want := []string{"a", "b", "c", "d"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	if spec.InitContainers[1].Image != "changed" || spec.EphemeralContainers[0].Image != "changed" {
		t.Error("the containers are copies")
	}
	for stop := range names {
		n := 0
		for range Containers(spec) {
			if n == stop {
				break
			}
			n++
		}
	}
}

func TestASidecarIsRestartedAlways(t *testing.T) {
	for _, tc := range []struct {
		policy *corev1.ContainerRestartPolicy
		want   bool
	}{
		{nil, false},
		{ptr.To(corev1.ContainerRestartPolicyNever), false},
		{ptr.To(corev1.ContainerRestartPolicyAlways), true},
	} {
		if got := IsSidecar(&corev1.Container{RestartPolicy: tc.policy}); got != tc.want {
			t.Errorf("%v: %v", ptr.Deref(tc.policy, "no policy"), got)
		}
	}
}

func TestOnlyALoneContainerThatIsNotRestartedRunsOnce(t *testing.T) {
	one, two := []corev1.Container{{Name: "a"}}, []corev1.Container{{Name: "a"}, {Name: "b"}}
	restarting := func(policy corev1.ContainerRestartPolicy) []corev1.Container {
		return []corev1.Container{{Name: "a", RestartPolicy: &policy}}
	}
	rules := []corev1.Container{{Name: "a", RestartPolicyRules: []corev1.ContainerRestartRule{{}}}}
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		want bool
	}{
		"one container":                         {corev1.PodSpec{RestartPolicy: "Never", Containers: one}, true},
		"one that is restarted when it fails":   {corev1.PodSpec{RestartPolicy: "OnFailure", Containers: one}, false},
		"one that is always restarted":          {corev1.PodSpec{RestartPolicy: "Always", Containers: one}, false},
		"one that itself says it is restarted":  {corev1.PodSpec{RestartPolicy: "Never", Containers: restarting("OnFailure")}, false},
		"one that itself says it is not":        {corev1.PodSpec{RestartPolicy: "Always", Containers: restarting("Never")}, true},
		"one that rules may restart":            {corev1.PodSpec{RestartPolicy: "Never", Containers: rules}, false},
		"two containers":                        {corev1.PodSpec{RestartPolicy: "Never", Containers: two}, false},
		"one container after an init container": {corev1.PodSpec{RestartPolicy: "Never", Containers: one, InitContainers: two[1:]}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := RunsOnce(&c.spec); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
