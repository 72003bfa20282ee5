// Package manifests keeps what a directory of manifests says: `jobd serve --manifests DIR`.
//
// Files come in, as the administrator writes them (Read), and what was applied from them before, which is stored under a resource
// that no client sees. What follows is decided by pure functions (Plan, Decide) and carried out through the API, as any client of
// the socket would: admission, defaults and the audit log see it. What is applied carries the label of an ApplySet, and nothing is
// ever removed that does not, or was not applied from there.
//
// What is to be applied is stored before it is applied, and that it was, after. A jobd that was killed in between finds out what
// has become of it: by the object, or, of one that is gone again, by the history.
package manifests

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jobd/jobd/api/batch"
)

// Manager is the field manager of what is applied, and the user who creates it.
const Manager = "jobd-manifests"

// PartOf is the label of the members of an ApplySet, and SetID the set of all that is applied from the directory: as kubectl would
// name it after a ConfigMap jobd-manifests in kube-system.
const PartOf = "applyset.kubernetes.io/part-of"

// SetID is the value of the label.
var SetID = func() string {
	sum := sha256.Sum256([]byte(Manager + ".kube-system.ConfigMap."))
	return "applyset-" + base64.RawURLEncoding.EncodeToString(sum[:]) + "-v1"
}()

// Ref names an object, whatever version of its group it is written in.
type Ref struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// runsOnce reports whether what an object stands for runs to an end, so that it is not applied again once it has.
func (r Ref) runsOnce() bool { return r == r.as("batch", "Job") || r == r.as("", "Pod") }

// starts reports whether something runs because of an object, now or later.
func (r Ref) starts() bool { return r.runsOnce() || r == r.as("batch", "CronJob") }

// isNamespace reports whether it is a namespace, in which there may be what others have made.
func (r Ref) isNamespace() bool { return r == r.as("", "Namespace") }

func (r Ref) as(group, kind string) Ref {
	r.Group, r.Kind = group, kind
	return r
}

// rank orders kinds: what others need comes first.
func (r Ref) rank() int {
	switch {
	case r.isNamespace():
		return 0
	case r.runsOnce():
		return 3
	case r.Group == "batch":
		return 2
	}
	return 1
}

func compare(a, b Ref) int {
	return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Name, b.Name), cmp.Compare(a.Group, b.Group))
}

// Object is an object of a file.
type Object struct {
	Ref
	File     string
	Resource schema.GroupVersionResource
	// Hash is the same as long as the object is written in the same way, but for comments and the order of fields.
	Hash string
	// AtEnd says that it is in the last document of its file, which may go on if the file is being written.
	AtEnd bool
	Body  *unstructured.Unstructured
}

// newObject returns an object as it is applied: with the label, and, of one that runs once, its hash.
func newObject(ref Ref, file string, resource schema.GroupVersionResource, body *unstructured.Unstructured) (Object, error) {
	text, err := json.Marshal(body.Object) // the keys of maps are in order
	if err != nil {
		return Object{}, err
	}
	sum := sha256.Sum256(text)
	o := Object{Ref: ref, File: file, Resource: resource, Hash: hex.EncodeToString(sum[:])[:32], Body: body.DeepCopy()}
	o.Body.SetNamespace(ref.Namespace)
	labels := o.Body.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[PartOf] = SetID
	o.Body.SetLabels(labels)
	if ref.runsOnce() {
		annotations := o.Body.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[batch.ManifestHashAnnotation] = o.Hash
		o.Body.SetAnnotations(annotations)
	}
	return o, nil
}

// Problem is what is wrong with a file, or with an object in it.
type Problem struct {
	// File is empty if it is the directory.
	File    string
	Message string
}

func sorted(refs []Object) []Object {
	slices.SortStableFunc(refs, func(a, b Object) int { return compare(a.Ref, b.Ref) })
	return refs
}
