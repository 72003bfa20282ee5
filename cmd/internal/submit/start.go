package submit

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/cmd/internal/progress"
)

const (
	// askEvery is how long it takes until the server is first asked why a Job does not run. Later it is asked less often, up
	// to askSeldom: a Job may wait in a queue for days.
	askEvery  = time.Second
	askSeldom = 10 * time.Second
	// settles is for how long the machine must not take a pod before that counts: devices may be found only after a start,
	// and a full disk may be cleared.
	settles = 5 * time.Second
)

// askWhy asks the server, while no pod of the Job runs, why that is so, and passes that on; also what ends only when
// somebody changes something. It ends with a server that has no answer.
func (r *following) askWhy() {
	var unfit time.Time // since when the machine does not take a pod
	for pause := askEvery; ; pause = min(pause*3/2, askSeldom) {
		select {
		case <-time.After(pause):
		case <-r.ctx.Done():
			return
		}
		if j := r.model.Job(); batch.End(&j.Status) != nil {
			return
		} else if r.runs() {
			unfit = time.Time{}
			continue
		}
		said, err := r.explain(r.ctx)
		switch {
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err):
			return // a cluster, or somebody who may not ask
		case err != nil:
			continue
		}
		if first := why.First(said.Causes); said.State == batch.StateWaiting && first != nil && !first.Passing() {
			r.send(update{is: waits, why: first.Brief, kind: first.Type})
		}
		c, definite := cannotStartOf(said.Causes, r.Own)
		switch {
		case c == nil:
			unfit = time.Time{}
			continue
		case unfit.IsZero():
			unfit = time.Now()
		}
		if definite || time.Since(unfit) >= settles {
			message := c.Message
			if c.Object != nil {
				message = c.Object.String() + ": " + message
			}
			r.send(update{is: cannotStart, why: message})
			if r.OnStartError == OnStartErrorFail {
				return
			}
		}
	}
}

// runs reports whether a pod of the Job runs.
func (r *following) runs() bool {
	for _, p := range r.model.Pods() {
		if p.State == progress.Running {
			return true
		}
	}
	return false
}

func (r *following) explain(ctx context.Context) (*why.Explanation, error) {
	return r.Client.Explain(ctx, r.model.Job())
}

// Explain asks the server why a Job is in its state, which a cluster does not say.
func (c *Client) Explain(ctx context.Context, job *batchv1.Job) (*why.Explanation, error) {
	answer := c.Kubernetes.BatchV1().RESTClient().Get().Namespace(job.Namespace).Resource("jobs").
		Name(job.Name).SubResource("why").Do(ctx)
	if err := answer.Error(); err != nil {
		return nil, err
	}
	raw, err := answer.Raw()
	if err != nil {
		return nil, err
	}
	said := &why.Explanation{}
	return said, json.Unmarshal(raw, said)
}

// cannotStartOf returns the first cause, however deep, that ends only when somebody changes something; nil if there is
// none. definite says that there is no doubt. Where nobody else can do anything (own), that is true of more.
func cannotStartOf(causes []why.Cause, own bool) (found *why.Cause, definite bool) {
	for i := range causes {
		c := &causes[i]
		failures, _ := strconv.Atoi(c.Details["failures"])
		switch c.Type {
		case "SecretMissing", "ConfigMapMissing", "PersistentVolumeClaimMissing", "SetAside", "NeedMissed":
			return c, true
		case "VolumeFails", "SetUpFails", "CreateContainerError": // may have been chance the first time
			if failures > 1 {
				return c, true
			}
		case "PodRefused":
			// A quota has room again when other Jobs end.
			if failures > 1 && (own || !strings.Contains(c.Message, "exceeded quota")) {
				return c, true
			}
		case "NeverFits", "NodeUnfit", "DeviceMissing", "OtherNode":
			return c, false
		case "WaitsForClaim":
			if c.Details["volume"] != "" { // which is on another machine
				return c, false
			}
		case "ClaimUnbound": // somebody else may run the driver that makes such volumes
			if own && c.Details["reason"] == "ExternalProvisioning" {
				return c, true
			}
		case "WaitsForGang":
			if own && c.Details["exists"] == "false" {
				return c, true
			}
		case string(batchv1.JobSuspended), "Moving", "AwaitsUnknownJob", "SchedulingGated", "NoParallelism", // held back on purpose
			"ManagedElsewhere", "NoForwarder":
			if own {
				return c, true
			}
		}
		if inner, definite := cannotStartOf(c.Causes, own); inner != nil {
			return inner, definite
		}
	}
	return nil, false
}
