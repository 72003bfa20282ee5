package main

import "regexp"

// immutableTemplate is what the server says of a Job whose template was edited and applied again: all of the new one, in JSON, and
// that the field is immutable.
var immutableTemplate = regexp.MustCompile(`(spec\.template: )Invalid value: (?s:.*?): field is immutable`)

// shortTemplate says of an edited template what helps, instead of the template.
func shortTemplate(message string) string {
	return immutableTemplate.ReplaceAllString(message, "${1}the template of a Job cannot change, since its pods are made from it: delete the Job first, or let "+
		"\"jobctl replace --force -f FILE\" do both (\"jobctl submit --replace -f FILE\" also follows it); its pods and logs go with it")
}
