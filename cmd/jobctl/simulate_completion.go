package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"
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
		words = []string{"*:", "index=", "pod=", "start=", "restart=", "container=", "job=", "chance="}
	case s.file == "" || s.file == "-":
	case name == "index" || name == "container" || name == "job":
		read, err := s.read()
		if err != nil {
			return nil, noSpace
		}
		j := read.jobs[0]
		switch name {
		case "job":
			for _, j := range read.jobs {
				words = append(words, "job="+j.Name)
			}
		case "index":
			for i := range min(offeredIndexes, int(ptr.Deref(j.Spec.Completions, 0))) {
				words = append(words, "index="+strconv.Itoa(i))
			}
		case "container":
			for _, c := range slices.Concat(j.Spec.Template.Spec.InitContainers, j.Spec.Template.Spec.Containers) {
				words = append(words, "container="+c.Name)
			}
		}
	}
	var offered []string
	for _, w := range words {
		if strings.HasPrefix(w, word) {
			offered = append(offered, before+w)
		}
	}
	return offered, noSpace
}
