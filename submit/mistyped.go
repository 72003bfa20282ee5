package submit

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	// unmarshal is what encoding/json says of a value of the wrong type.
	unmarshal = regexp.MustCompile(`cannot unmarshal (\w+)(?: \S+)? into Go (?:struct field (\S+)|value) of type (\S+)`)
	// expected is what server-side apply says of it.
	expected = regexp.MustCompile(`(\.\S+): expected (string|numeric|boolean|list|map)\b`)
	// quantity is what resource.ParseQuantity says.
	quantity = regexp.MustCompile(`quantities must match the regular expression|unable to parse quantity's suffix`)
)

// Mistyped returns a line that helps whoever wrote a manifest with a value of the wrong type, given what the server says of
// it; "" for all other errors.
func Mistyped(message string) string {
	if quantity.MatchString(message) {
		return "An amount is a number and a unit without a space, such as 500m, 2, 64M, 64Mi, 2G or 2Gi: for 64MB write 64M, for 8K 8k or 8Ki."
	}
	if m := unmarshal.FindStringSubmatch(message); m != nil {
		_, field, _ := strings.Cut(m[2], ".") // without the Go type
		return wants(field, jsonType(m[3]), m[1])
	}
	if m := expected.FindStringSubmatch(message); m != nil {
		return wants(strings.TrimPrefix(m[1], "."), strings.Replace(m[2], "numeric", "number", 1), "")
	}
	return ""
}

// jsonType returns what a manifest has to have for a field of a Go type.
func jsonType(goType string) string {
	switch {
	case goType == "string":
		return "string"
	case goType == "bool":
		return "boolean"
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "uint"), strings.HasPrefix(goType, "float"):
		return "number"
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
	case "list":
		return fmt.Sprintf(`%s takes a list: ["a", "b"], or lines that begin with "- ".`, field)
	}
	return fmt.Sprintf("%s takes fields of its own: lines NAME: VALUE, indented below it.", field)
}
