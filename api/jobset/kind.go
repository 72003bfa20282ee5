package jobset

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/kind"
)

// Kind describes JobSets.
func Kind() *kind.Kind {
	return kind.Of[jobsetv1.JobSet, jobsetv1.JobSetList](kind.Description[*jobsetv1.JobSet]{
		GroupVersion: jobsetv1.GroupVersion,
		Name:         "JobSet",
		Namespaced:   true,
		Default:      setDefaults,
		Table:        table(),
		Rules: kind.Rules[*jobsetv1.JobSet]{
			Create:      prepare,
			Update:      prepareUpdate,
			Check:       validate,
			CheckUpdate: validateUpdate,
			Warn:        warnings,
			WarnUpdate:  updateWarnings,
			Reset:       kind.Path("status"),
		},
		Subresources: map[string]kind.Rules[*jobsetv1.JobSet]{
			"status": {
				Update:      prepareStatusUpdate,
				CheckUpdate: validateStatusUpdate,
				Reset:       kind.Path("spec"),
			},
		},
	})
}

// prepare brings a new JobSet into the form that is stored: generation 1, no status.
func prepare(js *jobsetv1.JobSet) {
	js.Generation = 1
	js.Status = jobsetv1.JobSetStatus{}
	delete(js.Annotations, batch.ResumedAnnotation)
}

// prepareUpdate keeps the status, which has a subresource of its own, and counts the generation.
func prepareUpdate(js, old *jobsetv1.JobSet) {
	js.Status = old.Status
	js.Generation = old.Generation
	if !equality.Semantic.DeepEqual(js.Spec, old.Spec) {
		js.Generation++
	}
	batch.KeepResumed(&js.ObjectMeta, old.Annotations, Awaits(old) && !Suspended(js))
}

// prepareStatusUpdate keeps the spec.
func prepareStatusUpdate(js, old *jobsetv1.JobSet) {
	js.Spec = old.Spec
	js.Generation = old.Generation
	batch.KeepResumed(&js.ObjectMeta, old.Annotations, false)
}

// table is what kubectl prints of JobSets: the columns of the kind's definition in a cluster.
func table() kind.Columns[*jobsetv1.JobSet] {
	return kind.Columns[*jobsetv1.JobSet]{
		kind.NameColumn[*jobsetv1.JobSet](),
		{Name: "TerminalState", Description: "Final state of JobSet",
			Cell: func(js *jobsetv1.JobSet, _ time.Time) any { return js.Status.TerminalState }},
		{Name: "Restarts", Description: "Number of restarts",
			Cell: func(js *jobsetv1.JobSet, _ time.Time) any { return int64(js.Status.Restarts) }},
		{Name: "Completed", Description: "Whether the JobSet is complete",
			Cell: func(js *jobsetv1.JobSet, _ time.Time) any { return conditionOf(js, jobsetv1.JobSetCompleted) }},
		{Name: "Suspended", Description: "JobSet suspended", Cell: func(js *jobsetv1.JobSet, _ time.Time) any {
			if js.Spec.Suspend == nil {
				return ""
			}
			return map[bool]string{true: "true", false: "false"}[*js.Spec.Suspend]
		}},
		kind.AgeColumn[*jobsetv1.JobSet](),
	}
}

// conditionOf returns the status of a condition, empty if there is none.
func conditionOf(js *jobsetv1.JobSet, t jobsetv1.JobSetConditionType) string {
	for _, c := range js.Status.Conditions {
		if c.Type == string(t) {
			return string(c.Status)
		}
	}
	return ""
}
