// Package handover brings Jobs to another server: it says what would keep a Job from running there, and moves a Job that waits here.
//
// A Job and what two servers say come in. What is needed (Needs), what is wrong (Check) and what a move does next (Next) are pure
// functions; Look, Images and Mover ask and change the servers, by the API alone.
package handover

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/podspec"
)

// Work is what is handed over: the templates of pods of a Job, or of the Jobs of a JobSet.
type Work struct {
	Jobs []Part
	// Brings are the objects that come with it, by kind and name: "ConfigMap/settings".
	Brings []string
}

// Part is a Job, or the template of one, and where it stands.
type Part struct {
	At   *field.Path // nil for a Job itself
	Meta *metav1.ObjectMeta
	Spec *batchv1.JobSpec
}

// OfJob is the work of one Job.
func OfJob(j *batchv1.Job) Work { return Work{Jobs: []Part{{Meta: &j.ObjectMeta, Spec: &j.Spec}}} }

// OfSet is the work of a JobSet.
func OfSet(js *jobsetv1.JobSet) (w Work) {
	for i := range js.Spec.ReplicatedJobs {
		t := &js.Spec.ReplicatedJobs[i].Template
		w.Jobs = append(w.Jobs, Part{
			At: field.NewPath("spec", "replicatedJobs").Index(i).Child("template"), Meta: &t.ObjectMeta, Spec: &t.Spec,
		})
	}
	return w
}

// path returns the path of a field of the Job, or of its template.
func (p Part) path(first string, more ...string) *field.Path {
	if p.At == nil {
		return field.NewPath(first, more...)
	}
	return p.At.Child(first, more...)
}

// Object is what has to be there before a pod can be started.
type Object struct{ Kind, Name string }

// Need is an object that a field names.
type Need struct {
	Object
	Field string
}

// Needs returns the objects that work cannot do without, and does not bring.
func Needs(w Work) (all []Need) {
	for _, p := range w.Jobs {
		EachName(&p.Spec.Template.Spec, p.path("spec", "template", "spec"), func(n Named) {
			accounted := n.Kind == "ServiceAccount" && *n.Name == "default" // that one comes with its namespace
			if !accounted && !n.Optional && !slices.Contains(w.Brings, n.Kind+"/"+*n.Name) {
				all = append(all, Need{Object{n.Kind, *n.Name}, n.Path.String()})
			}
		})
	}
	return all
}

// Named is the name of an object in a pod's spec.
type Named struct {
	Path *field.Path
	Kind string
	Name *string // where it stands
	// Optional: pods run without the object too.
	Optional bool
}

// EachName calls fn with the names of objects in a pod's spec that have to be there beside it. fn may change them.
func EachName(spec *corev1.PodSpec, at *field.Path, fn func(Named)) {
	name := func(path *field.Path, kind string, name *string, optional *bool) {
		if name != nil && *name != "" {
			fn(Named{path, kind, name, ptr.Deref(optional, false)})
		}
	}
	name(at.Child("serviceAccountName"), "ServiceAccount", &spec.ServiceAccountName, nil)
	name(at.Child("priorityClassName"), "PriorityClass", &spec.PriorityClassName, nil)
	name(at.Child("runtimeClassName"), "RuntimeClass", spec.RuntimeClassName, nil)
	for i := range spec.Volumes {
		namesOfVolume(&spec.Volumes[i], at.Child("volumes").Index(i), name)
	}
	for i := range spec.ResourceClaims {
		c, path := &spec.ResourceClaims[i], at.Child("resourceClaims").Index(i)
		name(path.Child("resourceClaimName"), "ResourceClaim", c.ResourceClaimName, nil)
		name(path.Child("resourceClaimTemplateName"), "ResourceClaimTemplate", c.ResourceClaimTemplateName, nil)
	}
	podspec.Each(spec, at, func(c *corev1.Container, path *field.Path) { namesOfContainer(c, path, name) })
	for i := range spec.ImagePullSecrets { // a kubelet tries without
		name(at.Child("imagePullSecrets").Index(i).Child("name"), "Secret", &spec.ImagePullSecrets[i].Name, ptr.To(true))
	}
}

// naming takes in a name, unless there is none.
type naming func(path *field.Path, kind string, name *string, optional *bool)

func namesOfVolume(v *corev1.Volume, path *field.Path, name naming) {
	switch {
	case v.PersistentVolumeClaim != nil:
		name(path.Child("persistentVolumeClaim", "claimName"), "PersistentVolumeClaim", &v.PersistentVolumeClaim.ClaimName, nil)
	case v.ConfigMap != nil:
		name(path.Child("configMap", "name"), "ConfigMap", &v.ConfigMap.Name, v.ConfigMap.Optional)
	case v.Secret != nil:
		name(path.Child("secret", "secretName"), "Secret", &v.Secret.SecretName, v.Secret.Optional)
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		name(path.Child("ephemeral", "volumeClaimTemplate", "spec", "storageClassName"), "StorageClass",
			v.Ephemeral.VolumeClaimTemplate.Spec.StorageClassName, nil)
	case v.Projected != nil:
		for i, s := range v.Projected.Sources {
			path := path.Child("projected", "sources").Index(i)
			if s.ConfigMap != nil {
				name(path.Child("configMap", "name"), "ConfigMap", &s.ConfigMap.Name, s.ConfigMap.Optional)
			}
			if s.Secret != nil {
				name(path.Child("secret", "name"), "Secret", &s.Secret.Name, s.Secret.Optional)
			}
		}
	}
}

func namesOfContainer(c *corev1.Container, path *field.Path, name naming) {
	for i, e := range c.EnvFrom {
		path := path.Child("envFrom").Index(i)
		if e.ConfigMapRef != nil {
			name(path.Child("configMapRef", "name"), "ConfigMap", &e.ConfigMapRef.Name, e.ConfigMapRef.Optional)
		}
		if e.SecretRef != nil {
			name(path.Child("secretRef", "name"), "Secret", &e.SecretRef.Name, e.SecretRef.Optional)
		}
	}
	for i, e := range c.Env {
		if e.ValueFrom == nil {
			continue
		}
		path := path.Child("env").Index(i).Child("valueFrom")
		if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
			name(path.Child("configMapKeyRef", "name"), "ConfigMap", &r.Name, r.Optional)
		}
		if r := e.ValueFrom.SecretKeyRef; r != nil {
			name(path.Child("secretKeyRef", "name"), "Secret", &r.Name, r.Optional)
		}
	}
}

// Image is the image of a container, and the field that names it.
type Image struct{ Ref, Field string }

// Images returns those of all containers.
func (w Work) Images() (all []Image) {
	for _, p := range w.Jobs {
		podspec.Each(&p.Spec.Template.Spec, p.path("spec", "template", "spec"), func(c *corev1.Container, path *field.Path) {
			all = append(all, Image{c.Image, path.Child("image").String()})
		})
	}
	return all
}
