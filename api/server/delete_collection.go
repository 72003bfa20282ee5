package server

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	"github.com/jobd/jobd/api/storage"
)

const (
	// deletedAtOnce is how many objects of a collection are read at a time.
	deletedAtOnce = 500
	// answeredPages is of how many such pages the answer has the objects.
	answeredPages = 8
)

// DeleteCollection deletes a collection page by page, where the registry would hold all that it has deleted. What is deleted may cut
// the history that a page goes on in: then it begins again with what is left.
func (r *resource) DeleteCollection(
	ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, list *internalversion.ListOptions,
) (runtime.Object, error) {
	end, err := storage.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	ctx = storage.Passing(ctx)
	if list == nil {
		list = &internalversion.ListOptions{}
	}
	if list.Limit > 0 {
		return r.Store.DeleteCollection(ctx, validate, options, list)
	}
	next := list.DeepCopy()
	next.Limit = deletedAtOnce
	answer := deletedPages{}
	for {
		part, release := storage.Part(ctx)
		page, err := r.Store.DeleteCollection(part, validate, options, next)
		if apierrors.IsResourceExpired(err) && answer.first != nil && list.Continue == "" {
			release()
			next.Continue = ""
			continue
		}
		if err != nil {
			return nil, err
		}
		at, err := meta.ListAccessor(page)
		if err != nil {
			return nil, err
		}
		next.Continue = at.GetContinue()
		kept, err := answer.add(page)
		if err != nil {
			return nil, err
		}
		if !kept {
			release()
		}
		if next.Continue == "" {
			return answer.list(ctx)
		}
		next.ResourceVersion, next.ResourceVersionMatch = "", ""
	}
}

// deletedPages are the pages of a collection that were deleted. The first ones are the answer.
type deletedPages struct {
	first runtime.Object
	items []runtime.Object
	pages int
}

// add takes in a page, and reports whether it is held.
func (d *deletedPages) add(page runtime.Object) (bool, error) {
	if d.pages++; d.pages > answeredPages {
		return false, nil
	}
	if d.first == nil {
		d.first = page
	}
	items, err := meta.ExtractList(page)
	d.items = append(d.items, items...)
	return true, err
}

func (d *deletedPages) list(ctx context.Context) (runtime.Object, error) {
	if d.pages > answeredPages {
		warning.AddWarning(ctx, "", fmt.Sprintf("the answer has the first %d of the objects that were deleted", len(d.items)))
	}
	return d.first, meta.SetList(d.first, d.items)
}
