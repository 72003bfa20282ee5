package batch

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestOOMMemoryAnnotations(t *testing.T) {
	for name, tc := range map[string]struct{ factor, limit, want string }{
		"good":           {"1.5", "8Gi", ""},
		"a whole number": {"2", "8Gi", ""},
		"no number": {
			"more", "8Gi",
			`metadata.annotations[jobd.dev/oom-memory-factor]: Invalid value: "more": must be a number above 1 and at most 10, such as "1.5"`,
		},
		"a long number": {
			"1.50000000000000000001", "8Gi",
			`metadata.annotations[jobd.dev/oom-memory-factor]: Invalid value: "1.50000000000000000001": must have at most 16 characters`,
		},
		"no growth": {
			"1", "8Gi",
			`metadata.annotations[jobd.dev/oom-memory-factor]: Invalid value: "1": must be a number above 1 and at most 10, such as "1.5"`,
		},
		"not a number": {
			"NaN", "8Gi",
			`metadata.annotations[jobd.dev/oom-memory-factor]: Invalid value: "NaN": must be a number above 1 and at most 10, such as "1.5"`,
		},
		"too much": {
			"11", "8Gi",
			`metadata.annotations[jobd.dev/oom-memory-factor]: Invalid value: "11": must be a number above 1 and at most 10, such as "1.5"`,
		},
		"no most": {"2", "", `metadata.annotations[jobd.dev/oom-memory-max]: Required value: says how far memory may grow by jobd.dev/oom-memory-factor`},
		"no quantity": {
			"2", "all",
			`metadata.annotations[jobd.dev/oom-memory-max]: Invalid value: "all": must be a quantity of memory above 0, such as "8Gi"`,
		},
		"a most alone": {"", "8Gi", `metadata.annotations[jobd.dev/oom-memory-factor]: Required value: jobd.dev/oom-memory-max has no effect without it`},
	} {
		t.Run(name, func(t *testing.T) {
			job := minimalJob(t, "j", "")
			job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
			job.Annotations = map[string]string{}
			for name, value := range map[string]string{OOMMemoryFactorAnnotation: tc.factor, OOMMemoryMaxAnnotation: tc.limit} {
				if value != "" {
					job.Annotations[name] = value
				}
			}
			if diff := cmp.Diff(tc.want, said(create(job, "u1"))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if got := JobOOMMemory(job.Annotations); (got != nil) != (tc.want == "") {
				t.Errorf("grows: %v", got)
			}
			if warnings := jobWarnings(job); (len(warnings) > 0) != (tc.factor != "") {
				t.Errorf("without memory that could grow: %q", warnings)
			}
		})
	}
	spec := &batchv1.JobSpec{}
	spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	errs := validateOOMMemory(map[string]string{OOMMemoryFactorAnnotation: "2", OOMMemoryMaxAnnotation: "1Gi"}, spec, field.NewPath("a"))
	if len(errs) != 1 {
		t.Errorf("with restartPolicy OnFailure: %v", errs)
	}
}

func TestGrow(t *testing.T) {
	type amounts struct{ limit, request string }
	for name, tc := range map[string]struct {
		is    amounts
		kills int
		want  amounts
	}{
		"the limit":                 {amounts{"100Mi", ""}, 1, amounts{"150Mi", ""}},
		"and the request":           {amounts{"100Mi", "50Mi"}, 2, amounts{"225Mi", "117964800"}},
		"the request alone":         {amounts{"", "100Mi"}, 1, amounts{"", "150Mi"}},
		"up to the most":            {amounts{"100Mi", "100Mi"}, 1 << 30, amounts{"1Gi", "1Gi"}},
		"not below what it had":     {amounts{"2Gi", "1Gi"}, 3, amounts{"2Gi", "1Gi"}},
		"nothing, if there is none": {amounts{"", ""}, 3, amounts{"", ""}},
		"an odd number is rounded":  {amounts{"3", "1"}, 1, amounts{"5", "2"}},
		"zero stays":                {amounts{"0", ""}, 3, amounts{"0", ""}},
		"a request of zero stays":   {amounts{"100Mi", "0"}, 1, amounts{"150Mi", "0"}},
		"nothing without a kill":    {amounts{"100Mi", ""}, 0, amounts{"100Mi", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			resources := func() (r corev1.ResourceRequirements) {
				if tc.is.limit != "" {
					r.Limits = corev1.ResourceList{"memory": resource.MustParse(tc.is.limit)}
				}
				if tc.is.request != "" {
					r.Requests = corev1.ResourceList{"memory": resource.MustParse(tc.is.request)}
				}
				return r
			}
			whole := resources()
			spec := &corev1.PodSpec{
				Resources:      &whole,
				InitContainers: []corev1.Container{{Name: "other", Resources: resources()}},
				Containers:     []corev1.Container{{Name: "c", Resources: resources()}},
			}
			o := JobOOMMemory(map[string]string{OOMMemoryFactorAnnotation: "1.5", OOMMemoryMaxAnnotation: "1Gi"})
			o.Grow(spec, []string{"c"}, tc.kills)
			want := func(r corev1.ResourceRequirements, want amounts) {
				t.Helper()
				for text, got := range map[string]*resource.Quantity{want.limit: r.Limits.Memory(), want.request: r.Requests.Memory()} {
					if q := resource.MustParse("0" + text); got.Cmp(q) != 0 {
						t.Errorf("%s, want %s", got, text)
					}
				}
			}
			want(spec.Containers[0].Resources, tc.want)
			want(*spec.Resources, tc.want)
			want(spec.InitContainers[0].Resources, tc.is)
		})
	}
}

// A quantity that takes hours to compute is refused, and no longer has an effect where it was stored before it was.
func TestOOMMemoryThatTakesHours(t *testing.T) {
	for _, limit := range []string{"1e-14000000", "1e-2000000000", strings.Repeat("9", 3_000_000)} {
		annotations := map[string]string{OOMMemoryFactorAnnotation: "2", OOMMemoryMaxAnnotation: limit}
		began := time.Now()
		if o := JobOOMMemory(annotations); o != nil {
			t.Errorf("%.30s: %v", limit, o)
		}
		spec := &batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}}}
		if errs := validateOOMMemory(annotations, spec, field.NewPath("metadata", "annotations")); len(errs) != 1 {
			t.Errorf("%.30s: %d errors", limit, len(errs))
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("%.30s took %v", limit, took)
		}
	}
}
