package causes

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/prospect"
	"github.com/jobd/jobd/daemon/requests"
)

// fewRuns is how many runs say what a Job needs, and muchMore how often what they used is to fit into what is asked for, for that to
// be worth telling.
const (
	fewRuns  = 3
	muchMore = 2
)

// podRightSize is that a pod waits for more than the former runs of its Job have used.
func podRightSize(v *podView) []why.Cause {
	r, ok := v.Rooms[v.pod.UID]
	if !ok || v.pod.Spec.NodeName != "" || v.job == nil || v.Past == nil || len(r.Short) == 0 {
		return nil
	}
	runs := v.Past(v.job)
	c := why.Cause{Type: "AsksForMore", Details: map[string]string{"runs": fmt.Sprint(runs.Count)}}
	var said []string
	for _, s := range r.Short {
		used := usedOf(runs, s)
		if runs.Count < fewRuns || used <= 0 || used > s.Request/muchMore {
			continue
		}
		said = append(said, fmt.Sprintf("asks for %s, and %d runs used at most %s",
			requests.Words(s.Resource, s.Request), runs.Count, requests.Human(s.Resource, used)))
		c.Details["request."+string(s.Resource)] = requests.Format(s.Resource, s.Request)
		c.Details["used."+string(s.Resource)] = requests.Format(s.Resource, used)
	}
	if len(said) == 0 {
		return nil
	}
	c.Brief = said[0]
	c.Message = "It " + strings.Join(said, "; it ") + ". With lower requests it would start sooner."
	of := history.RunsOf(v.job)
	switch {
	case of.CronJob != "":
		c.Help = []string{fmt.Sprintf("jobctl history cronjobs/%s%s --waste", of.CronJob, why.InNamespace(v.job.Namespace))}
	case of.GenerateName != "":
		c.Help = []string{"jobctl history" + why.InNamespace(v.job.Namespace) + " --waste"}
	default:
		c.Help = []string{fmt.Sprintf("jobctl history jobs/%s%s --waste", of.Name, why.InNamespace(v.job.Namespace))}
	}
	return []why.Cause{c}
}

// usedOf returns how much of what a pod lacks its former runs have used, in the unit of that; 0 if that is not known.
func usedOf(runs history.Runs, s prospect.Shortage) int64 {
	switch s.Resource {
	case corev1.ResourceMemory:
		return runs.Memory
	case corev1.ResourceCPU:
		return int64(1000*runs.CPU + .5)
	}
	return 0
}
