package simulation

import (
	"strings"
	"time"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
)

// hold plays that the Job is held back until a time, and tells for which others it waits.
func (s *simulation) hold() {
	if len(batch.After(s.job.Annotations)) > 0 {
		s.tellNeeds()
	}
	if at, ok := batch.StartAt(s.job.Annotations); ok && at.After(s.now) {
		s.tell("Waits", nil, "waits until %s (%s)", at.Format(time.RFC3339), batch.StartAtAnnotation)
		s.now = at
	}
	batch.Resume(s.job, s.now)
}

// tellNeeds tells for which other Jobs the Job waits. They are not played: it begins when they have ended.
func (s *simulation) tellNeeds() {
	var needs []string
	for _, n := range batch.After(s.job.Annotations) {
		needs = append(needs, n.Words())
	}
	s.tell("Waits", nil, "waits for %s (%s); what follows is from then on", strings.Join(needs, ", "), batch.AfterAnnotation)
}

// tellGroup tells that the Job needs a place in a concurrency group. The others of it are not played: it begins when it has one.
func (s *simulation) tellGroup() {
	c, ok := core.ConcurrencyOf(s.job.Annotations)
	if !ok {
		return
	}
	without := map[string]string{
		core.QueueConcurrent: "waits", core.ReplaceConcurrent: "ends the oldest that has one", core.ForbidConcurrent: "fails at once",
	}[c.Policy]
	s.tell("Waits", nil, "needs a place in the concurrency group %s (limit %d), and %s if there is none; what follows is with a place",
		c.Group, c.Limit, without)
}
