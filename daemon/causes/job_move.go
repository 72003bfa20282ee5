package causes

import (
	"fmt"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/why"
)

// moving is that a Job is held since somebody moves it elsewhere.
func (v *jobView) moving(m *batch.Moving) why.Cause {
	again := fmt.Sprintf("jobctl move jobs/%s --on %s%s", v.job.Name, why.Word(m.To), why.InNamespace(v.job.Namespace))
	return why.Cause{
		Type: "Moving", Brief: "being moved to " + m.To, Details: map[string]string{"to": m.To},
		Message: fmt.Sprintf("It is being moved to %s, and is held here until that is done; it may have been made there already. "+
			"If the command that does so was interrupted, run it again; with --cancel the Job goes on here, if it is not there.", m.To),
		Help: []string{again, again + " --cancel"},
	}
}
