// Package elements counts the elements of lists and the keys of maps in objects of the API, before they are decoded and after. What
// is small on the wire can be large in memory, and much work: an element is 3 bytes of JSON and, as a container, a kilobyte of
// fields, each of which is validated; and libraries look for each text of a list, and each key of a map, among the others. The
// package also finds the quantities that would be computed for hours, and values that cannot be encoded again.
//
// What comes in is a body or an object; what goes out is an error that names the field, or nil. Nothing is touched.
package elements

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// Most is how many elements a list may have, but for the arguments of a container.
	Most = 5_000
	// mostInAll is how many elements all lists of objects, lists or null may have together in a body.
	mostInAll = 50_000
	// mostKeys is how many keys a map may have, and mostSmall how many texts, numbers and keys of maps there may be in all, but for
	// the keys of managed fields that are in order: there is one for each key of a map and everybody who has ever changed it.
	mostKeys, mostSmall = 20_000, 100_000
	// fewKeys is how many keys an object may have that are not counted in all, as it may be none that is a map.
	fewKeys = 100
)

// tally counts the elements of one body.
type tally struct {
	all, small int
	err        *field.Error
}

// list counts one more element, which makes count of its list, and reports whether to go on.
func (t *tally) list(count int) bool {
	t.all++
	return count <= Most && t.all <= mostInAll
}

// scalarOf counts one more text or number, which makes count of its list, and reports whether to go on.
func (t *tally) scalarOf(count int) bool {
	t.small++
	return count <= Most && t.small <= mostSmall
}

// keyOf counts one more key, which makes count of its map, and reports whether to go on.
func (t *tally) keyOf(count int) bool {
	if count > fewKeys {
		t.small++
	}
	return count <= mostKeys && t.small <= mostSmall
}

// exceededKeys returns the error for the map with which there are too many keys.
func (t *tally) exceededKeys(path string, count int) *field.Error {
	if count > mostKeys {
		return tooMany(path, count, mostKeys)
	}
	return tooMany(path, t.small, mostSmall)
}

// exceeded returns the error for the list with which there are too many; count is how many it has to its end.
func (t *tally) exceeded(path string, count int) *field.Error {
	if count > Most {
		return tooMany(path, count, Most)
	}
	if t.small > mostSmall {
		return tooMany(path, t.small, mostSmall)
	}
	return tooMany(path, t.all, mostInAll)
}

func tooMany(path string, count, most int) *field.Error {
	return field.TooMany(field.NewPath(strings.TrimPrefix(path, ".")), count, most)
}

// at returns the path of an element, or of a field of it.
func at(path string, index int) string { return fmt.Sprintf("%s[%d]", path, index) }
