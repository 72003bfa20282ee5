package submit

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/cmd/internal/progress"
	"github.com/jobd/jobd/internal/handover"
)

// mostLogs is how many logs of Jobs of a JobSet are followed at a time. Those of further Jobs are shown once others have ended.
const mostLogs = 40

// SetLogs says what is shown of the logs of a JobSet.
type SetLogs struct {
	// Asked are parameters of the request for the log of each Job, and First those that only the first one has.
	Asked, First url.Values
	// Times says that each line has its time.
	Times bool
}

// jobLogOf returns what shows the log of a Job: before each line group/index, the index of the pod if there are several, and the
// container if there are several. It is not followed if that is asked once.
func (l SetLogs) jobLogOf(client *Client, j *batchv1.Job, display progress.Display, flow *flow, once bool) *jobLog {
	label := j.Labels[jobsetv1.ReplicatedJobNameKey] + "/" + j.Labels[jobsetv1.JobIndexKey]
	attempt := ""
	if restart, err := strconv.Atoi(j.Labels[jobset.RestartAttemptKey]); err == nil && restart > 0 {
		attempt = fmt.Sprintf(" attempt=%d", restart+1)
	}
	containers := len(j.Spec.Template.Spec.Containers) + len(j.Spec.Template.Spec.InitContainers)
	show := func(c progress.Chunk) {
		if c.Stream == missing {
			c.Text = slices.Concat([]byte("("), c.Text, []byte(")"))
		}
		c.Label = "[" + label
		if c.Index != nil && ptr.Deref(j.Spec.Completions, 1) > 1 {
			c.Label += fmt.Sprintf("/%d", *c.Index)
		}
		if containers > 1 {
			c.Label += " " + c.Container
		}
		if c.Label += attempt; c.Restart > 0 {
			c.Label += fmt.Sprintf(" restart=%d", c.Restart)
		}
		if c.Label += "] "; l.Times && !c.Time.IsZero() {
			c.Label += c.Time.Format(time.RFC3339Nano) + " "
		}
		display.Log(c)
	}
	return &jobLog{client: client, job: j, out: shown{show, display.Flush, flow}, asked: l.Asked, first: l.First, once: once}
}

// PrintSetLogs shows the logs of the Jobs of a JobSet as far as they go now, in the order of its groups.
func PrintSetLogs(ctx context.Context, client *Client, js *jobsetv1.JobSet, display progress.Display, logs SetLogs) error {
	found, err := jobsOfSet(ctx, client, js)
	if err != nil {
		return err
	}
	place := map[string]int{}
	for i := range js.Spec.ReplicatedJobs {
		place[js.Spec.ReplicatedJobs[i].Name] = i
	}
	number := func(j *batchv1.Job) int {
		n, _ := strconv.Atoi(j.Labels[jobsetv1.JobIndexKey])
		return n
	}
	slices.SortStableFunc(found, func(a, b *batchv1.Job) int {
		if d := place[a.Labels[jobsetv1.ReplicatedJobNameKey]] - place[b.Labels[jobsetv1.ReplicatedJobNameKey]]; d != 0 {
			return d
		}
		return number(a) - number(b)
	})
	for _, j := range found {
		if !hasBegun(j) {
			continue
		}
		err := logs.jobLogOf(client, j, display, &flow{}, true).follow(ctx)
		if errors.Is(err, errNoJobLog) { // it is gone by now, or this is a cluster
			if ours, failed := handover.IsJobd(client.Kubernetes.Discovery()); failed == nil && !ours {
				return noLogsOfSets(js)
			}
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func noLogsOfSets(js *jobsetv1.JobSet) error {
	return fmt.Errorf("a cluster has no logs of JobSets: those of pods are shown by kubectl logs -l %s=%s --prefix", jobsetv1.JobSetNameKey, js.Name)
}

// jobsOfSet returns the Jobs that a JobSet controls now.
func jobsOfSet(ctx context.Context, client *Client, js *jobsetv1.JobSet) (found []*batchv1.Job, err error) {
	list, err := client.Kubernetes.BatchV1().Jobs(js.Namespace).List(ctx, metav1.ListOptions{LabelSelector: setSelector(js)})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if _, owner := batch.SetOf(&list.Items[i]); owner == js.UID {
			found = append(found, &list.Items[i])
		}
	}
	return found, nil
}

func setSelector(js *jobsetv1.JobSet) string { return jobsetv1.JobSetNameKey + "=" + js.Name }

// hasBegun reports whether pods of a Job may have written something.
func hasBegun(j *batchv1.Job) bool {
	return j.Status.Active+j.Status.Succeeded+j.Status.Failed > 0 || batch.End(&j.Status) != nil
}
