package answers

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// toldResources are the resources of the kinds that people are told of.
var toldResources = map[string]string{"Job": objects.Jobs, "JobSet": objects.JobSets, "CronJob": objects.CronJobs}

// Told explains an object to those who are told of it: in sentences, as "jobctl why" does, with all that its own namespace has to
// say of it. Nothing is said of an object that is gone, or another of its name.
func (e *Explainer) Told(ctx context.Context, of notify.Object) (string, error) {
	there := false
	if err := e.Store.View(func(s *store.Snapshot) error {
		o, ok := s.Get(store.Key(toldResources[of.Kind], of.Namespace, of.Name))
		there = ok && o.UID == of.UID
		return nil
	}); err != nil || !there {
		return "", err
	}
	said, err := e.Explain(ctx, why.Reference{Kind: of.Kind, Namespace: of.Namespace, Name: of.Name}, func(_, namespace string) bool {
		return namespace == of.Namespace
	})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = why.Print(&text, said)
	return text.String(), err
}
