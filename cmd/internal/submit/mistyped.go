package submit

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/internal/quantity"
)

var (
	// unmarshal is what encoding/json says of a value of the wrong type.
	unmarshal = regexp.MustCompile(`cannot unmarshal (\w+)(?: \S+)? into Go (?:struct field (\S+)|value) of type (\S+)`)
	// words are the API's own types of text, of which a field takes one of a few words.
	words = regexp.MustCompile(`\.\w+(?:Policy|Type|Mode|Protocol|Operator|Effect|Scheme|Action|Medium|Name|Condition)$`)
	// expected is what server-side apply says of it.
	expected = regexp.MustCompile(`(\.\S+): expected (string|numeric|boolean|list|map)\b`)
	// converts is what the server says of a patch with such a value, without the field.
	converts = regexp.MustCompile(`(?m)cannot convert \w+ to [\w.]+$|cannot restore (?:struct|slice|map) from|unrecognized type: \w+$`)
	// noNamespace is what it says of what would be in a namespace that does not exist.
	noNamespace = regexp.MustCompile(`namespaces "([^"]+)" not found`)
	// noMode is what it says of the mode of a file that is too large, for which nobody writes an octal number in decimal digits.
	noMode = regexp.MustCompile(`Invalid value: ([0-7]{3,4}): must be a number between 0 and 0777 \(octal\)`)
	// noSchedule and noZone are what it says of a CronJob's time.
	noSchedule = regexp.MustCompile(`spec\.schedule: Invalid value: "[^"]*": (?:expected exactly 5 fields, found (\d+))?`)
	noZone     = regexp.MustCompile(`spec\.timeZone: Invalid value: "[^"]*": unknown time zone`)
	// untyped is what kubectl says of a file without the lines that every object begins with.
	untyped = regexp.MustCompile(`error validating data: \[?(?:apiVersion|kind) not set`)
	// device is what the server says of a device without a limit, and bareDevice of one by half of its name.
	device     = regexp.MustCompile(`Limit must be set for non overcommitable resources`)
	bareDevice = regexp.MustCompile(`(?i)"gpus?": must be a standard resource`)
	// noQuantity is what resource.ParseQuantity says.
	noQuantity = regexp.MustCompile(`quantities must match the regular expression|unable to parse quantity's suffix`)
)

// Mistyped returns a line that helps whoever wrote a manifest with a value of the wrong type, given what the server says of it;
// "" for all other errors. sent are the bodies of the requests, in which it looks for the field if the message does not name
// it.
func Mistyped(message string, sent ...[]byte) string {
	if help := misspelt(message, sent...); help != "" {
		return help
	}
	if help := inOtherWords(message); help != "" {
		return help
	}
	if noQuantity.MatchString(message) {
		const form = "is a number and a unit without a space, such as 500m, 2, 64M, 64Mi, 2G or 2Gi: for 64MB write 64M, for 8K 8k or 8Ki."
		for _, body := range sent {
			if field, value := badQuantity(manifestOf(body), ""); field != "" {
				return fmt.Sprintf("%s has %q, which is not an amount. An amount %s", field, value, form)
			}
		}
		return "An amount " + form
	}
	if m := noMode.FindStringSubmatch(message); m != nil {
		return fmt.Sprintf("To YAML, %s is a decimal number. The mode of a file is octal, and begins with a zero: 0%[1]s.", m[1])
	}
	if m := unmarshal.FindStringSubmatch(message); m != nil {
		_, field, _ := strings.Cut(m[2], ".") // without the Go type
		return wants(field, jsonType(m[3]), m[1])
	}
	if m := expected.FindStringSubmatch(message); m != nil {
		return wants(strings.TrimPrefix(m[1], "."), strings.Replace(m[2], "numeric", "number", 1), "")
	}
	if !converts.MatchString(message) {
		return ""
	}
	for _, body := range sent {
		manifest, err := json.Marshal(manifestOf(body))
		if err != nil {
			continue
		}
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(manifest, nil, nil); err != nil && unmarshal.MatchString(err.Error()) {
			return Mistyped(err.Error())
		}
	}
	return "A field has a value of another type than it takes: put quotes around bare numbers and around true, false, yes, no, on and off where text is meant."
}

// inOtherWords returns what a value is to be, where the message says only what it is not; "" for all other messages.
func inOtherWords(message string) string {
	if m := noSchedule.FindStringSubmatch(message); m != nil && !strings.Contains(message, "use timeZone field") {
		help := "A schedule has five fields: minute (0-59), hour (0-23), day of the month (1-31), month (1-12, JAN-DEC) and day of the week " +
			"(0-6, SUN-SAT), as in \"30 2 * * MON-FRI\"; or it is @hourly, @daily, @weekly, @monthly or @yearly."
		if m[1] == "6" || m[1] == "7" {
			help += " There is no field for seconds, nor for years."
		}
		return help
	}
	if m := unregistered.FindStringSubmatch(message); m != nil {
		if of, err := schema.ParseGroupVersion(m[2]); err == nil {
			if kind := KindMeant(m[1], of); kind != "" {
				return "Write kind: " + kind
			}
		}
	}
	for _, hint := range []struct {
		said *regexp.Regexp
		help string
	}{
		{noZone, `A time zone is one of "timedatectl list-timezones", such as Europe/Berlin or Etc/UTC; names such as CEST are none.`},
		{untyped, "Every object of a file begins with the two lines apiVersion and kind: those of a Job are \"apiVersion: batch/v1\" and \"kind: Job\"."},
		{device, "How many devices, or huge pages, a container has is said by limits; requests may be left out."},
		{bareDevice, "GPUs are nvidia.com/gpu, or as \"jobctl describe nodes\" lists them under Allocatable."},
	} {
		if hint.said.MatchString(message) {
			return hint.help
		}
	}
	return ""
}

// NamespaceMissing returns a line for whoever creates something in a namespace that does not exist; "" for all other errors.
func NamespaceMissing(message string) string {
	if m := noNamespace.FindStringSubmatch(message); m != nil {
		return "Create the namespace first: jobctl create namespace " + m[1]
	}
	return ""
}

// manifestOf returns the object that the body of a request has; that of which a patch was made, if it says so.
func manifestOf(body []byte) (object map[string]any) {
	if yaml.Unmarshal(body, &object) != nil {
		return nil
	}
	if applied, is, _ := unstructured.NestedString(object, "metadata", "annotations", corev1.LastAppliedConfigAnnotation); is {
		var from map[string]any
		if json.Unmarshal([]byte(applied), &from) == nil {
			return from
		}
	}
	return object
}

// amounts are fields with amounts of resources by name, and amount are those with one.
var (
	amounts = []string{"limits", "requests", "capacity", "allocatable", "overhead", "hard", "min", "max", "default", "defaultRequest", "maxLimitRequestRatio"}
	amount  = []string{"sizeLimit", "divisor"}
)

// badQuantity returns the first field whose amount cannot be read, and what it has instead; "" if there is none.
func badQuantity(value any, path string) (field, is string) {
	bad := func(v any) bool {
		text, isText := v.(string)
		_, err := quantity.Parse(strings.TrimSpace(text))
		return isText && err != nil
	}
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			at := strings.TrimPrefix(path+"."+name, ".")
			if slices.Contains(amount, name) && bad(v[name]) {
				return at, fmt.Sprint(v[name])
			}
			if of, ok := v[name].(map[string]any); ok && slices.Contains(amounts, name) {
				for _, resource := range slices.Sorted(maps.Keys(of)) {
					if bad(of[resource]) {
						return at + "." + resource, fmt.Sprint(of[resource])
					}
				}
			}
			if field, is := badQuantity(v[name], at); field != "" {
				return field, is
			}
		}
	case []any:
		for i, element := range v {
			if field, is := badQuantity(element, fmt.Sprintf("%s[%d]", path, i)); field != "" {
				return field, is
			}
		}
	}
	return "", ""
}

// jsonType returns what a manifest has to have for a field of a Go type.
func jsonType(goType string) string {
	switch {
	case goType == "string", words.MatchString(goType):
		return "string"
	case goType == "bool":
		return "boolean"
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "uint"), strings.HasPrefix(goType, "float"):
		return "number"
	case goType == "[]v1.EnvVar":
		return "variables"
	case strings.HasPrefix(goType, "[]v1."):
		return "objects"
	case strings.HasPrefix(goType, "[]"):
		return "list"
	}
	return "map"
}

// wants says how to write what a field wants. got is the JSON type of what it has, "" if that is not known.
func wants(field, want, got string) string {
	if field == "" {
		field = "This field"
	}
	switch want {
	case "string":
		if got == "array" || got == "object" {
			return fmt.Sprintf("%s takes text, not a list or fields of its own.", field)
		}
		return fmt.Sprintf(`%s takes text. To YAML, bare numbers and true, false, yes, no, on and off are something else: put quotes around them, as in "1".`,
			field)
	case "number":
		return fmt.Sprintf("%s takes a whole number, without quotes and without a unit.", field)
	case "boolean":
		return fmt.Sprintf("%s takes true or false, without quotes.", field)
	case "variables":
		return fmt.Sprintf(`%s takes a list of names and values: lines such as "- {name: A, value: b}".`, field)
	case "objects":
		return fmt.Sprintf(`%s takes a list of fields: each of its elements begins with "- ", as in "- name: a".`, field)
	case "list":
		return fmt.Sprintf(`%s takes a list: ["a", "b"], or lines that begin with "- ".`, field)
	}
	return fmt.Sprintf("%s takes fields of its own: lines NAME: VALUE, indented below it.", field)
}
