package causes

import (
	"fmt"
	"strings"

	"github.com/jobd/jobd/api/why"
)

// jobGroup is the concurrency group in which a Job has no place yet.
func jobGroup(v *jobView) []why.Cause {
	g := v.Group
	if g == nil || v.end != nil {
		return nil
	}
	c := why.Cause{
		Type: "AwaitsGroup", Brief: fmt.Sprintf("no place in the concurrency group %s (%d of %d taken)", g.Group, len(g.Holders), g.Limit),
		Message: fmt.Sprintf("It has no place in the concurrency group %s, of which %s at a time.", g.Group, run(g.Limit)),
		Details: map[string]string{"group": g.Group, "limit": fmt.Sprint(g.Limit), "holders": fmt.Sprint(len(g.Holders)), "ahead": fmt.Sprint(g.Ahead)},
		Help:    []string{"jobctl get groups" + why.InNamespace(v.job.Namespace)},
	}
	if len(g.Holders) > 0 {
		named := g.Holders[:min(len(g.Holders), shown)]
		c.Message += " The places are taken by jobs/" + strings.Join(named, ", jobs/")
		if more := len(g.Holders) - len(named); more > 0 {
			c.Message += fmt.Sprintf(" and %d more", more)
		}
		c.Message += "."
	}
	if g.Ahead > 0 {
		c.Message += fmt.Sprintf(" Jobs that come before it: %d.", g.Ahead)
	}
	v.expected(&c)
	return []why.Cause{c}
}

func run(limit int) string {
	if limit == 1 {
		return "one Job runs"
	}
	return fmt.Sprintf("%d Jobs run", limit)
}
