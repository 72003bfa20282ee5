package server

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	apistorage "k8s.io/apiserver/pkg/storage"

	"github.com/jobd/jobd/api/elements"
	"github.com/jobd/jobd/api/flowcontrol"
	"github.com/jobd/jobd/internal/fairshare"
)

// maxComparisons bounds how many comparisons a strategic merge patch needs. So many take two and a half seconds of a processor. One
// that changes each of 5,000 variables, and says their order, needs 50 million of them: 1.6 seconds.
const maxComparisons = 80_000_000

// costlyComparisons is from how many on a patch waits for its turn: some 50 milliseconds.
const costlyComparisons = 2_000_000

// costlyPatches is how many of these are applied at a time, and how many may wait.
var costlyPatches = fairshare.Limits{Total: 2, User: 1, Peer: 1, Queue: 32, QueueAll: 128, Wait: 20 * time.Second}

// patchKey is for such a patch.
type patchKey struct{}

type strategicPatch struct {
	elements.StrategicPatch
	turns *fairshare.Places
}

// begin waits until the patch may be applied to an object. The end of that has to be told by a call of release.
func (p strategicPatch) begin(ctx context.Context, old apiruntime.Object) (release func(), err error) {
	n := p.Comparisons(old, costlyComparisons, maxComparisons)
	if n <= costlyComparisons {
		return func() {}, nil
	}
	if n > maxComparisons {
		return nil, apierrors.NewRequestEntityTooLargeError("the lists of this strategic merge patch are too long for those of the object: " +
			"use a merge patch (application/merge-patch+json) or server-side apply")
	}
	release, ok := p.turns.Take(ctx, flowcontrol.ClientFrom(ctx))
	if !ok {
		return nil, apierrors.NewTooManyRequests("too many strategic merge patches with very long lists are applied", 1)
	}
	return release, nil
}

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
	if patch, ok := ctx.Value(patchKey{}).(strategicPatch); ok {
		release, err := patch.begin(ctx, old)
		if err != nil {
			return nil, err
		}
		defer release()
	}
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
