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

// nodeName returns the API's name for a machine: its host name, as for a kubelet, limited to what is allowed in names
// of objects and, since it is also a label, in values of labels.
func nodeName(hostname string) string {
	name := notInNames.ReplaceAllString(strings.ToLower(hostname), "-")
	name = atDots.ReplaceAllString(name, ".")
	name = strings.TrimLeft(name, "-.")
	name = strings.TrimRight(name[:min(len(name), validation.LabelValueMaxLength)], "-.")
	if name == "" {
		return "localhost"
	}
	return name
}
