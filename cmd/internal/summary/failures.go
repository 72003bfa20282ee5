package summary

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/cmd/internal/progress"
)

const (
	// namedPods is how many pods are named of those that have failed in one way.
	namedPods = 3
	// listedIndexes is how many bytes a list of indexes has at most.
	listedIndexes = 60
	// shownValues is of how many indexes the values are shown.
	shownValues = 3
)

// Failures returns what has failed of a Job that has, by cause, the most frequent first: its indexes, or the pods of a Job
// without. An index that nothing but its last pod is known of has failed as that did.
func (r *Report) Failures() (all []progress.Failure) {
	if r.result() != "failed" {
		return nil
	}
	unknown := "failed"
	if batch.AttemptOf(r.Job.Annotations) > 1 { // whose pods are not looked at
		unknown = "failed in an earlier attempt"
	}
	end := batch.End(&r.Job.Status)
	late := end != nil && end.Reason == batchv1.JobReasonDeadlineExceeded // it has stopped the pods that were left
	indexes := map[string][]int{}
	for _, o := range r.outcomes() {
		if o.state != progress.Failed {
			continue
		}
		cause := o.cause(unknown)
		if late && o.pod != nil && o.pod.Deleted {
			cause = batchv1.JobReasonDeadlineExceeded
		}
		i := slices.IndexFunc(all, func(f progress.Failure) bool { return f.Cause == cause })
		if i < 0 {
			i = len(all)
			all = append(all, progress.Failure{Cause: cause})
		}
		f := &all[i]
		f.Count++
		if o.index != nil {
			indexes[cause] = append(indexes[cause], *o.index)
		} else if len(f.Pods) < namedPods {
			f.Pods = append(f.Pods, o.pod.Name)
		}
	}
	for i := range all {
		of := indexes[all[i].Cause]
		all[i].Indexes = indexList(of)
		for _, index := range of[:min(len(of), shownValues)] {
			if words := r.Values.Words(index); words != "" {
				all[i].Values = append(all[i].Values, words)
			}
		}
		if len(all[i].Values) > 0 && len(of) > shownValues {
			all[i].Values = append(all[i].Values, "...")
		}
	}
	slices.SortStableFunc(all, func(a, b progress.Failure) int { return cmp.Compare(b.Count, a.Count) })
	return all
}

// cause says in a word or two how it failed, and unknown if that is not known. Names and numbers that differ for each pod are not in it.
func (o *outcome) cause(unknown string) string {
	p := o.pod
	switch {
	case p != nil && p.State != progress.Succeeded && p.Reason != "" && p.Reason != "Error":
		return p.Reason
	case p != nil && p.ExitCode != nil:
		return fmt.Sprintf("exit code %d", *p.ExitCode)
	}
	return cmp.Or(o.kind, unknown)
}

// indexList writes indexes in ascending order as a status does, "2,5-7", and no more of them than fit a line.
func indexList(indexes []int) string {
	var list strings.Builder
	for i := 0; i < len(indexes); {
		last := i
		for last+1 < len(indexes) && indexes[last+1] == indexes[last]+1 {
			last++
		}
		part := fmt.Sprint(indexes[i])
		if last > i {
			part += fmt.Sprintf("-%d", indexes[last])
		}
		if list.Len()+len(part) > listedIndexes {
			fmt.Fprintf(&list, " and %d more", len(indexes)-i)
			break
		}
		if i > 0 {
			list.WriteByte(',')
		}
		list.WriteString(part)
		i = last + 1
	}
	return list.String()
}
