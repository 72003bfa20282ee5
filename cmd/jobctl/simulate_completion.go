package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/podspec"
)

const (
	// offeredIndexes is how many indexes a shell offers at most.
	offeredIndexes = 100

	noSpace = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
)

// completePod offers the words of a rule of --pod (simulation.ParseRule), with the indexes and containers of the Job in
// the file that is named.
func (s *simulate) completePod(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	before, word := "", typed
	if i := strings.LastIndexAny(typed, " :"); i >= 0 {
		before, word = typed[:i+1], typed[i+1:]
	}
	var words []string
	switch name, _, valued := strings.Cut(word, "="); {
	case strings.Contains(before, ":"):
		words = []string{"exit=", "after=", "oom", "needs="}
	case !valued:
		words = []string{"*:", "index=", "pod=", "start=", "restart=", "container=", "job=", "group=", "attempt=", "chance="}
	case s.file == "" || s.file == "-":
	case name == "index" || name == "container" || name == "job" || name == "group":
		read, err := s.read()
		if err != nil {
			return nil, noSpace
		}
		words = read.words(name)
	}
	var offered []string
	for _, w := range words {
		if strings.HasPrefix(w, word) {
			offered = append(offered, before+w)
		}
	}
	return offered, noSpace
}

// words returns what may stand before the colon of a rule, of one name: what the file has for that.
func (m *manifests) words(name string) (words []string) {
	add := func(value string) {
		if word := name + "=" + value; !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	of := func(job string, spec *batchv1.JobSpec) {
		switch name {
		case "job":
			add(job)
		case "index":
			for i := range min(offeredIndexes, int(ptr.Deref(spec.Completions, 0))) {
				add(strconv.Itoa(i))
			}
		case "container":
			for c := range podspec.Workload(&spec.Template.Spec) {
				add(c.Name)
			}
		}
	}
	for _, j := range m.jobs {
		of(j.Name, &j.Spec)
	}
	for _, js := range m.sets {
		for i := range js.Spec.ReplicatedJobs {
			g := &js.Spec.ReplicatedJobs[i]
			if name == "group" {
				add(g.Name)
			}
			for index := range min(offeredIndexes, max(1, int(g.Replicas))) {
				of(jobset.JobName(js.Name, g.Name, index), &g.Template.Spec)
			}
		}
	}
	return words
}
