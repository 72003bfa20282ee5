package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/jobset"
	wire "github.com/jobd/jobd/api/picture"
	"github.com/jobd/jobd/cmd/internal/submit"
	"github.com/jobd/jobd/cmd/internal/terminal"
)

// askSetPicture asks the server for the picture of a JobSet.
func askSetPicture(ctx context.Context, client kubernetes.Interface, namespace, name string) (*wire.SetPicture, error) {
	answer := client.Discovery().RESTClient().Get().AbsPath(submit.JobSetsPath(namespace), name, "picture").Do(ctx)
	if err := answer.Error(); apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		if _, there := submit.GetJobSet(ctx, client, namespace, name); there != nil {
			return nil, there
		}
		return nil, errors.New("the server draws no pictures of JobSets: it is not jobd, or an older one")
	} else if err != nil {
		return nil, err
	}
	raw, err := answer.Raw()
	if err != nil {
		return nil, err
	}
	p := &wire.SetPicture{}
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, fmt.Errorf("the server's answer: %w", err)
	}
	return p, nil
}

// takeSet takes in the picture of a JobSet.
func (w *watcher) takeSet(p *wire.SetPicture) {
	w.setView.SetPicture = *p
	w.setView.Selected = min(w.setView.Selected, len(p.Groups)-1)
}

// setKey does what a key is for in the picture of a JobSet.
func (w *watcher) setKey(ctx context.Context, key string, step int, of object) {
	v := &w.setView
	switch {
	case step != 0 && v.Selected < 0: // from where something goes on
		if shown := wire.GroupsToShow(v.Groups, -1, 1); len(shown) > 0 {
			v.Selected = shown[0]
		}
	case step != 0:
		v.Selected = max(0, min(v.Selected+step, len(v.Groups)-1))
	case key == "enter" && v.Selected >= 0:
		w.openGroup(of, v.Groups[v.Selected])
	case key == "w":
		w.showWhy(ctx, of)
	case key == "d":
		w.describe(of)
	}
}

// openGroup goes to the only Job of a group, or to the list of its Jobs.
func (w *watcher) openGroup(set object, g wire.Group) {
	w.set = &set
	if g.Replicas == 1 {
		w.aim(&object{"jobs", set.namespace, jobset.JobName(set.name, g.Name, 0)})
		return
	}
	w.labels = jobsetv1.JobSetNameKey + "=" + set.name + "," + jobsetv1.ReplicatedJobNameKey + "=" + g.Name
	w.list, w.all = terminal.Overview{}, nil
	w.aim(nil)
}
