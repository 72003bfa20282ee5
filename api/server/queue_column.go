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

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/forecast"
)

const (
	// placesTimeout is how long a table waits for the places in the queue before it is shown without them.
	placesTimeout = 2 * time.Second
	// forecastJobs is for how many Jobs a table says when they are expected to start or end.
	forecastJobs = 200
)

// queueColumn adds to the table of Jobs the place in the queue of those that wait, and what is expected of those that have not ended,
// behind the columns of a cluster and only with -o wide; and to the column STATUS what only the control loop knows.
type queueColumn struct {
	rest.TableConvertor
	queue     Queue
	forecasts Forecasts
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
				Name: "Expected", Type: "string", Priority: 1,
				Description: "When a Job that waits is expected to start, and one that runs to end, and what that is based on.",
			},
			metav1.TableColumnDefinition{
				Name: "Queue", Type: "string", Priority: 1,
				Description: "The place in the queue of the first pod that waits for room, from 1.",
			})
	}
	var waiting bool
	var active []*batchv1.Job
	var unplaced []types.UID
	for i := range t.Rows {
		j, ok := t.Rows[i].Object.Object.(*batchv1.Job)
		if !ok {
			continue
		}
		if (j.Status.Active > 0 || batch.HeldBack(j)) && batch.End(&j.Status) == nil {
			waiting = waiting || waits(j)
			if len(active) < forecastJobs {
				active = append(active, j)
			}
		}
		if batch.Unplaced(j) {
			unplaced = append(unplaced, j.UID)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, placesTimeout)
	defer cancel()
	var places map[types.UID]int
	if waiting {
		places, _ = q.queue.Places(ctx) // the rest of the table does not depend on it
	}
	var groups map[types.UID]string // a namespace may name one
	if len(unplaced) > 0 {
		groups, _ = q.queue.Groups(ctx, unplaced)
	}
	var expected map[types.UID]*forecast.Forecast
	if q.forecasts != nil && len(active) > 0 {
		expected, _ = q.forecasts.Forecasts(ctx, active)
	}
	for i := range t.Rows {
		place, when := "", ""
		if j, ok := t.Rows[i].Object.Object.(*batchv1.Job); ok {
			if at := places[j.UID]; at > 0 && waits(j) {
				place = fmt.Sprint(at)
			}
			when = expected[j.UID].Cell(time.Now())
			if group := groups[j.UID]; group != "" && len(t.Rows[i].Cells) > batch.StatusColumn {
				t.Rows[i].Cells[batch.StatusColumn] = batch.GroupShown(group)
			}
		}
		t.Rows[i].Cells = append(t.Rows[i].Cells, when, place)
	}
	return t, nil
}

// waits reports whether a pod of a Job may wait for room.
func waits(j *batchv1.Job) bool { return j.Status.Active > ptr.Deref(j.Status.Ready, 0) }
