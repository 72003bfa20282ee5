package forward

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/internal/handover"
)

// Origin is who makes something in a cluster.
type Origin struct {
	// Jobd is which jobd it is, the UID of its namespace kube-system: what it makes it knows again wherever its state goes.
	Jobd types.UID
	// Machine tells the machine from others that have a copy of that state, and with it the same Jobs; empty if nothing does.
	Machine string
}

// mark labels what is made there for a Job here.
func (o Origin) mark(labels *map[string]string, l *batchv1.Job) {
	if *labels == nil {
		*labels = map[string]string{}
	}
	(*labels)[clusters.OriginLabel], (*labels)[clusters.OriginUIDLabel] = string(o.Jobd), string(l.UID)
	if o.Machine != "" {
		(*labels)[clusters.MachineLabel] = o.Machine
	}
}

// machineOf tells the machine of a jobd from others: by its installation, and by its hardware, which a copied disk does not take along. Of
// nodes that somebody else has made the first one is not.
func machineOf(nodes []corev1.Node) string {
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n corev1.Node) bool {
		return n.Status.NodeInfo.MachineID == "" && n.Status.NodeInfo.SystemUUID == ""
	})
	if len(nodes) == 0 {
		return ""
	}
	first := slices.MinFunc(nodes, func(a, b corev1.Node) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	sum := sha256.Sum256([]byte(first.Status.NodeInfo.MachineID + "/" + first.Status.NodeInfo.SystemUUID))
	return hex.EncodeToString(sum[:8]) // whoever reads Jobs there is not to learn the ID, which is a secret
}

// introduce waits for jobd, and finds out which one it is, and whether its Jobs can go to the cluster.
func (f *Forwarder) introduce(ctx context.Context) error {
	for said := ""; ; {
		err := f.ask(ctx, f.introduced)
		if status := apierrors.APIStatus(nil); err == nil || errors.Is(err, errNames) || errors.As(err, &status) && handover.Refused(err) {
			return err
		}
		if err.Error() != said { // and not each second again
			said = err.Error()
			f.Logger.Warn("jobd does not answer, and is asked every second: is it running, and is its socket the one of --socket?", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// errNames: with the names that there are, what is in the cluster could not be told from what is here.
var errNames = errors.New("what is there could not be told from what is here")

func (f *Forwarder) introduced(ctx context.Context) error {
	system, err := f.local.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return err
	}
	nodes, err := f.local.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	switch {
	case err != nil:
		return err
	case len(nodes.Items) == 0:
		return errors.New("it has no node yet")
	}
	if slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return n.Name == f.Cluster }) {
		return fmt.Errorf("%w: --cluster: %s is the name of a node of this jobd, and the pods there are shown as those of a node that is named "+
			"as the cluster; choose another name", errNames, f.Cluster)
	}
	ctx, done := context.WithTimeout(ctx, probeInterval) // of a cluster that does not answer yet nothing is known
	defer done()
	if id, err := f.identity(ctx); err == nil && id == system.UID {
		return fmt.Errorf("%w: the kubeconfig leads to this jobd itself, or to a copy of it, where Jobs would take the names of those that are here",
			errNames)
	}
	f.origin = Origin{Jobd: system.UID, Machine: machineOf(nodes.Items)}
	return nil
}

// identity returns what tells the cluster from others, the UID of its namespace kube-system; empty if that may not be known.
func (f *Forwarder) identity(ctx context.Context) (id types.UID, err error) {
	err = f.ask(ctx, func(ctx context.Context) error {
		ns, err := f.remote.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err == nil {
			id = ns.UID
		}
		return err
	})
	if handover.Refused(err) {
		err = nil
	}
	return id, err
}
