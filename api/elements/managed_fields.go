package elements

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// managedType is that of the fields that somebody manages: a text in JSON wherever it is, of a key for each field. The library looks
// for the place of each key among the others, and moves those behind it.
var managedType = reflect.TypeFor[metav1.FieldsV1]()

// managed counts the keys of such a text.
func (t *tally) managed(raw []byte, path string) {
	if len(raw) < fewKeys*len(`"f:":{},`) {
		return
	}
	s := scan{tally: *t, body: raw, within: path}
	err := s.run()
	*t = s.tally
	t.err = err
}
