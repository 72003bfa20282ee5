package causes

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/api/why"
)

// jobExpected is that a Job of this name is expected to succeed, or that none has in time.
func jobExpected(v *jobView) []why.Cause {
	m := v.Expected
	if m == nil {
		return nil
	}
	every := duration.HumanDuration(m.Every)
	c := why.Cause{
		Type: "SuccessExpected", Until: why.At(m.Due()),
		Message: fmt.Sprintf("A Job of this name is expected to succeed again within %s (%s)", every, notices.EveryAnnotation),
		Details: map[string]string{"due": m.Due().UTC().Format(time.RFC3339)},
	}
	if m.Late(v.Now) {
		c.Type, c.Until, c.Since = "Overdue", nil, why.At(m.Due())
		c.Message = fmt.Sprintf("It is overdue: no Job of this name has succeeded within %s (%s)", every, notices.EveryAnnotation)
		c.Help = []string{fmt.Sprintf("jobctl history %s%s", v.job.Name, why.InNamespace(v.job.Namespace))}
	}
	if m.Last != nil {
		c.Message += fmt.Sprintf("; the last success was at %s.", m.Last.Format("2006-01-02 15:04:05 MST"))
		c.Details["lastSuccess"] = m.Last.UTC().Format(time.RFC3339)
	} else {
		c.Message += "; none has so far."
	}
	return []why.Cause{c}
}
