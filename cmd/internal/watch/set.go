package watch

import (
	"context"

	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/jobset"
	wire "github.com/jobd/jobd/api/picture"
	"github.com/jobd/jobd/cmd/internal/about"
	"github.com/jobd/jobd/cmd/internal/terminal"
)

// takeSet takes in the picture of a JobSet.
func (w *watcher) takeSet(p *wire.SetPicture) {
	w.setView.SetPicture = *p
	w.setView.Selected = min(w.setView.Selected, len(p.Groups)-1)
}

// setKey does what a key is for in the picture of a JobSet.
func (w *watcher) setKey(ctx context.Context, key string, step int, of about.Object) {
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
func (w *watcher) openGroup(set about.Object, g wire.Group) {
	w.set = &set
	if g.Replicas == 1 {
		w.aim(&about.Object{Resource: "jobs", Namespace: set.Namespace, Name: jobset.JobName(set.Name, g.Name, 0)})
		return
	}
	w.labels = jobsetv1.JobSetNameKey + "=" + set.Name + "," + jobsetv1.ReplicatedJobNameKey + "=" + g.Name
	w.list, w.all = terminal.Overview{}, nil
	w.aim(nil)
}
