package core

import (
	"errors"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ShareAnnotation of a namespace is its weight where the queue is ordered by what everybody has used (jobd serve --queue-order fair): one of
// 2 may use twice as much as one without before it comes behind that.
const ShareAnnotation = "jobd.dev/share"

// maxShare bounds the weight of a namespace.
const maxShare = 1000

// Share returns the weight in a namespace's ShareAnnotation; 0 if it has none, or one that is no weight.
func Share(annotations map[string]string) (float64, error) {
	value, ok := annotations[ShareAnnotation]
	if !ok {
		return 0, nil
	}
	share, err := strconv.ParseFloat(value, 64)
	if err != nil || !(share >= 0.001 && share <= maxShare) {
		return 0, errors.New("must be a number from 0.001 to 1000")
	}
	return share, nil
}

func validateShare(annotations map[string]string) field.ErrorList {
	if _, err := Share(annotations); err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("metadata", "annotations").Key(ShareAnnotation), annotations[ShareAnnotation], err.Error())}
	}
	return nil
}
