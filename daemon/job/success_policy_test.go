package job

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"
)

func TestSuccessPolicy(t *testing.T) {
	rule := func(indexes string, count int32) batchv1.SuccessPolicyRule {
		r := batchv1.SuccessPolicyRule{}
		if indexes != "" {
			r.SucceededIndexes = &indexes
		}
		if count > 0 {
			r.SucceededCount = &count
		}
		return r
	}
	for name, c := range map[string]struct {
		rules   []batchv1.SuccessPolicyRule
		succeed []int32
		message string
	}{
		"a count of any indexes":               {[]batchv1.SuccessPolicyRule{rule("", 2)}, []int32{1, 4}, "Matched rules at index 0"},
		"a count that is not reached":          {[]batchv1.SuccessPolicyRule{rule("", 3)}, []int32{1, 4}, ""},
		"all of some indexes":                  {[]batchv1.SuccessPolicyRule{rule("1,4", 0)}, []int32{4, 1}, "Matched rules at index 0"},
		"not all of some indexes":              {[]batchv1.SuccessPolicyRule{rule("1,4", 0)}, []int32{0, 1, 2, 3}, ""},
		"a count of some indexes":              {[]batchv1.SuccessPolicyRule{rule("0,2-3", 1)}, []int32{3}, "Matched rules at index 0"},
		"others do not count":                  {[]batchv1.SuccessPolicyRule{rule("0,2-3", 1)}, []int32{1, 4}, ""},
		"the first rule that matches is named": {[]batchv1.SuccessPolicyRule{rule("4", 0), rule("", 1), rule("1", 0)}, []int32{1}, "Matched rules at index 1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(func(s *batchv1.JobSpec) {
				indexed(5, 5)(s)
				s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: c.rules}
			})
			for _, i := range c.succeed {
				w.endIndex(i, 0)
			}
			met := standing(w.job.Status.Conditions, batchv1.JobSuccessCriteriaMet)
			if c.message == "" {
				if met != nil {
					t.Error(met.message)
				}
				return
			}
			if met == nil || met.message != c.message || met.reason != "SuccessPolicy" {
				t.Fatal(w.conditions())
			}
			if s := &w.job.Status; s.Active != 0 || s.Failed != 0 || int(*s.Terminating) != 5-len(c.succeed) {
				t.Error(describe(s))
			}
		})
	}
	for name, c := range map[string]struct {
		rule        batchv1.SuccessPolicyRule
		completions int32 // fewer than there were
		met         bool
	}{
		"all indexes of a rule are beyond":            {rule("2-3", 0), 2, false},
		"some are, and the others have succeeded":     {rule("0,3", 0), 2, true},
		"fewer are left than the rule asks for":       {rule("0,2-3", 3), 2, true},
		"fewer are left, and one has not succeeded":   {rule("0-3", 4), 2, false},
		"a count is more than there are indexes left": {rule("", 3), 2, false},
	} {
		t.Run("completions become fewer: "+name, func(t *testing.T) {
			w := begin(func(s *batchv1.JobSpec) {
				indexed(4, 4)(s)
				s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{c.rule}}
			})
			w.endIndex(0, 0)
			w.edit(func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = &c.completions, &c.completions })
			w.settle()
			if met := standing(w.job.Status.Conditions, batchv1.JobSuccessCriteriaMet) != nil; met != c.met {
				t.Error(w.conditions())
			}
		})
	}
	t.Run("a count of 0 is met with the first success", func(t *testing.T) {
		w := begin(func(s *batchv1.JobSpec) {
			indexed(3, 3)(s)
			s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: ptr.To[int32](0)}}}
		})
		if w.settle(); w.conditions() != "" {
			t.Error("before: ", w.conditions())
		}
		if w.endIndex(1, 0); standing(w.job.Status.Conditions, batchv1.JobSuccessCriteriaMet) == nil {
			t.Error("afterwards: ", w.conditions())
		}
	})
	t.Run("within one decision failure wins", func(t *testing.T) {
		w := begin(func(s *batchv1.JobSpec) {
			indexed(2, 2)(s)
			s.BackoffLimit = ptr.To[int32](0)
			s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{rule("0", 0)}}
		})
		names := w.names()
		w.end(names[0], 0)
		w.end(names[1], 1)
		if w.settle(); w.conditions() != "FailureTarget=True BackoffLimitExceeded, Failed=True BackoffLimitExceeded" {
			t.Error(w.conditions())
		}
	})
}
