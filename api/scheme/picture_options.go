package scheme

import (
	"fmt"
	"net/url"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jobd/jobd/api/picture"
)

// addPictureOptions registers the conversion of the parameters of GET .../jobs/NAME/picture.
func addPictureOptions(s *runtime.Scheme) error {
	for _, version := range []string{batchv1.SchemeGroupVersion.Version, runtime.APIVersionInternal} {
		s.AddKnownTypeWithName(schema.GroupVersionKind{Group: batchv1.GroupName, Version: version, Kind: "JobPictureOptions"},
			&picture.Options{})
	}
	return parameters(s, func(v url.Values, o *picture.Options) error {
		o.Cursor = v.Get("cursor")
		if text := v.Get("cell"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 {
				return fmt.Errorf("parameter cell: %q is not the number of a cell", text)
			}
			o.Cell = &n
		}
		return nil
	})
}
