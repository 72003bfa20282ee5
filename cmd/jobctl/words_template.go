package main

import (
	"regexp"
	"strings"
)

var (
	// immutableTemplate is what the server says of a Job whose template was edited and applied again: all of the new one, in
	// JSON, and that the field is immutable.
	immutableTemplate = regexp.MustCompile(`(spec\.template: )Invalid value: (?s:.*?): field is immutable`)
	// immutablePod is what it says if the Job is suspended, and something of its pods was edited that stays also then.
	immutablePod = regexp.MustCompile(`(spec\.template\.spec: )Invalid value: (?:core\.PodSpec)?\{(?s:.*?)\}: field is immutable`)
	// withoutSelector is what it says besides of one that a file replaces which lacks the selector that the server has set.
	withoutSelector = regexp.MustCompile("(?m)^\\* spec\\.(?:selector: Required value|template\\.metadata\\.labels: Invalid value: .*: " +
		"`selector` does not match template `labels`|selector: Invalid value: null: field is immutable)\n")
	// immutableField is what it says of another field of a Job.
	immutableField = regexp.MustCompile(`(?:The Job|Job\.batch) "(?s:.*): field is immutable`)
)

// anew is how a Job is created anew.
const anew = "delete the Job first, or let \"jobctl replace --force -f FILE\" do both (\"jobctl submit --replace -f FILE\" also follows it); " +
	"its pods and logs go with it"

// shortTemplate says of an edited template what helps, instead of the template, and of any other field of a Job that cannot
// change.
func shortTemplate(message string) string {
	message = immutableTemplate.ReplaceAllString(message, "${1}the template of a Job cannot change, since its pods are made from it: "+anew)
	message = immutablePod.ReplaceAllString(message, "${1}of the pods of a suspended Job only the scheduling (nodeSelector, node affinity, tolerations, "+
		"schedulingGates), the resources and the metadata can change; for anything else "+anew)
	if strings.Contains(message, anew) && strings.Contains(message, "* spec.selector: Required value\n") {
		return withoutSelector.ReplaceAllString(message, "")
	}
	if immutableField.MatchString(message) && !strings.Contains(message, anew) {
		message = strings.TrimRight(message, "\n") + "\nTo change what cannot change, " + anew + "."
	}
	return message
}
