package server

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	apistorage "k8s.io/apiserver/pkg/storage"
)

// clientsFault applies a client's change to an object. An error that is not one of the API, such as that of an applied
// field that does not exist, becomes a bad request; a cluster answers with a 500.
type clientsFault struct{ rest.UpdatedObjectInfo }

func (f clientsFault) UpdatedObject(ctx context.Context, old apiruntime.Object) (obj apiruntime.Object, err error) {
	defer func() {
		if r := recover(); r != nil {
			if !inPatchLibrary() {
				panic(r)
			}
			obj, err = nil, apierrors.NewBadRequest(fmt.Sprintf("the patch cannot be applied: %v", r))
		}
	}()
	obj, err = f.UpdatedObjectInfo.UpdatedObject(ctx, old)
	if err == nil {
		return obj, refuseElements(obj, old)
	}
	var status apierrors.APIStatus
	var stored *apistorage.StorageError
	if errors.As(err, &status) || errors.As(err, &stored) || ctx.Err() != nil {
		return obj, err
	}
	return nil, apierrors.NewBadRequest(err.Error())
}

// patchLibraries lists the libraries that apply patches. They trust the content of patches: one, that an operation on
// the whole document has a value; the other, that the merge keys of lists are comparable.
var patchLibraries = []string{"gopkg.in/evanphx/json-patch", "k8s.io/apimachinery/pkg/util/strategicpatch."}

// inPatchLibrary reports whether the panic comes from one of them.
func inPatchLibrary() bool {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		frame, more := frames.Next()
		for _, library := range patchLibraries {
			if strings.HasPrefix(frame.Function, library) {
				return true
			}
		}
		if !more {
			return false
		}
	}
}
