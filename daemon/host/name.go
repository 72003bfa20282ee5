package host

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

var (
	notInNames = regexp.MustCompile(`[^a-z0-9.-]+`)
	atDots     = regexp.MustCompile(`-*\.[.-]*`)
)

// NodeName is what the API calls a machine: its host name, as a kubelet takes it, in what is allowed in the names of
// objects and, since it is a label too, in the values of labels.
func NodeName(hostname string) string {
	name := notInNames.ReplaceAllString(strings.ToLower(hostname), "-")
	name = atDots.ReplaceAllString(name, ".")
	name = strings.TrimLeft(name, "-.")
	name = strings.TrimRight(name[:min(len(name), validation.LabelValueMaxLength)], "-.")
	if name == "" {
		return "localhost"
	}
	return name
}
