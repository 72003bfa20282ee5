package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/jobd/jobd/api/kind"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// maxFindings bounds what Check says of each sort.
const maxFindings = 100

// apiEndpoints is the object that says where pods find the API, which may be on an address that no client could name.
const apiEndpoints = "endpointslices.discovery.k8s.io/default/kubernetes"

// Check reads all objects of a database. The error is of class store.ErrCorrupt and names the objects that do not match their
// keys: a daemon would stop with an error, or take one object for another. Refused are objects that could not be created as
// they are, but that a daemon works with nevertheless: an older version, or somebody who edited the file, may have written
// them.
func Check(ctx context.Context, db *store.Store) (refused []string, err error) {
	kinds := map[string]*kind.Kind{}
	for _, k := range scheme.Kinds() {
		kinds[k.GroupResource().String()] = k
	}
	var wrong []error
	err = db.View(func(s *store.Snapshot) error {
		s.Range("", "", func(o store.Object) bool {
			if Hidden(o.Key) {
				return ctx.Err() == nil
			}
			resource, _, _ := strings.Cut(o.Key, "/")
			obj, err := checkObject(kinds[resource], resource, o)
			if err != nil {
				if len(wrong) < maxFindings {
					wrong = append(wrong, fmt.Errorf("%q: %w", o.Key, err))
				}
			} else if o.Key == apiEndpoints {
				return ctx.Err() == nil
			} else if errs := kinds[resource].Strategy.Validate(ctx, obj); len(errs) > 0 && len(refused) < maxFindings {
				refused = append(refused, fmt.Sprintf("%q: %v", o.Key, errs[0]))
			}
			return ctx.Err() == nil
		})
		return ctx.Err()
	})
	if err == nil && len(wrong) > 0 {
		err = fmt.Errorf("%w: %w", store.ErrCorrupt, errors.Join(wrong...))
	}
	return refused, err
}

// checkObject decodes an object and compares it with its key.
func checkObject(k *kind.Kind, resource string, o store.Object) (runtime.Object, error) {
	if k == nil {
		return nil, errors.New("there is no such kind")
	}
	obj := k.New()
	if err := scheme.Decode(o.Value, obj); err != nil {
		return nil, err
	}
	is, ok := obj.(metav1.Object)
	switch {
	case !ok:
		return nil, fmt.Errorf("a %T has no metadata", obj)
	case store.Key(resource, is.GetNamespace(), is.GetName()) != o.Key:
		return nil, fmt.Errorf("the object calls itself %q in the namespace %q", is.GetName(), is.GetNamespace())
	case string(is.GetUID()) != o.UID || o.UID == "" || strings.ContainsAny(o.UID, "/\x00"):
		return nil, fmt.Errorf("the object has the UID %q, and is stored with %q", is.GetUID(), o.UID)
	}
	return obj, nil
}
