// Package elements counts the elements of lists in objects of the API, before they are decoded and after. What is small on the
// wire can be large in memory, and much work: an element is 3 bytes of JSON and, as a container, a kilobyte of fields, each of
// which is validated.
//
// What comes in is a body or an object; what goes out is an error that names the field, or nil. Nothing is touched.
package elements

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// Most is how many elements a list may have, if they are objects, lists or null; text and numbers are what they are on the
	// wire.
	Most = 5_000
	// MostInAll is how many such elements all lists of a body may have together.
	MostInAll = 50_000
)

// tally counts the elements of one body.
type tally struct {
	all int
	err *field.Error
}

// list counts one more element, which makes count of its list, and reports whether to go on.
func (t *tally) list(count int) bool {
	t.all++
	return count <= Most && t.all <= MostInAll
}

// exceeded returns the error for the list with which there are too many; count is how many it has to its end.
func (t *tally) exceeded(path string, count int) *field.Error {
	if count > Most {
		return tooMany(path, count, Most)
	}
	return tooMany(path, t.all, MostInAll)
}

func tooMany(path string, count, most int) *field.Error {
	return field.TooMany(field.NewPath(strings.TrimPrefix(path, ".")), count, most)
}

// at returns the path of an element, or of a field of it.
func at(path string, index int) string { return fmt.Sprintf("%s[%d]", path, index) }
