package server

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"
)

// placesTimeout is how long a table waits for the places in the queue before it is shown without them.
const placesTimeout = 2 * time.Second

// queueColumn adds to the table of Jobs the place in the queue of those that wait, behind the columns of a cluster and
// only with -o wide.
type queueColumn struct {
	rest.TableConvertor
	queue Queue
}

// ConvertToTable implements rest.TableConvertor.
func (q queueColumn) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	t, err := q.TableConvertor.ConvertToTable(ctx, obj, options)
	if err != nil || q.queue == nil {
		return t, err
	}
	if len(t.ColumnDefinitions) > 0 {
		t.ColumnDefinitions = append(t.ColumnDefinitions[:len(t.ColumnDefinitions):len(t.ColumnDefinitions)],
			metav1.TableColumnDefinition{
				Name: "Queue", Type: "string", Priority: 1,
				Description: "The place in the queue of the first pod that waits for room, from 1.",
			})
	}
	var places map[types.UID]int
	asked := false
	for i := range t.Rows {
		cell := ""
		if j, ok := t.Rows[i].Object.Object.(*batchv1.Job); ok && j.Status.Active > ptr.Deref(j.Status.Ready, 0) {
			if !asked {
				asked = true
				places = q.places(ctx)
			}
			if place := places[j.UID]; place > 0 {
				cell = fmt.Sprint(place)
			}
		}
		t.Rows[i].Cells = append(t.Rows[i].Cells, cell)
	}
	return t, nil
}

func (q queueColumn) places(ctx context.Context) map[types.UID]int {
	ctx, cancel := context.WithTimeout(ctx, placesTimeout)
	defer cancel()
	places, err := q.queue.Places(ctx)
	if err != nil {
		return nil // the rest of the table does not depend on it
	}
	return places
}
