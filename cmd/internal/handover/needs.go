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
		at, spec := p.path("spec", "template", "spec"), &p.Spec.Template.Spec
		add := func(path *field.Path, kind, name string, optional *bool) {
			if name != "" && !ptr.Deref(optional, false) && !slices.Contains(w.Brings, kind+"/"+name) {
				all = append(all, Need{Object{kind, name}, path.String()})
			}
		}
		if spec.ServiceAccountName != "default" { // that one comes with its namespace
			add(at.Child("serviceAccountName"), "ServiceAccount", spec.ServiceAccountName, nil)
		}
		add(at.Child("priorityClassName"), "PriorityClass", spec.PriorityClassName, nil)
		add(at.Child("runtimeClassName"), "RuntimeClass", ptr.Deref(spec.RuntimeClassName, ""), nil)
		for i := range spec.Volumes {
			needsOfVolume(&spec.Volumes[i], at.Child("volumes").Index(i), add)
		}
		for i, c := range spec.ResourceClaims {
			path := at.Child("resourceClaims").Index(i)
			add(path.Child("resourceClaimName"), "ResourceClaim", ptr.Deref(c.ResourceClaimName, ""), nil)
			add(path.Child("resourceClaimTemplateName"), "ResourceClaimTemplate", ptr.Deref(c.ResourceClaimTemplateName, ""), nil)
		}
		podspec.Each(spec, at, func(c *corev1.Container, path *field.Path) { needsOfContainer(c, path, add) })
	}
	return all
}

// adding adds a need unless it is optional.
type adding func(path *field.Path, kind, name string, optional *bool)

func needsOfVolume(v *corev1.Volume, path *field.Path, add adding) {
	switch {
	case v.PersistentVolumeClaim != nil:
		add(path.Child("persistentVolumeClaim", "claimName"), "PersistentVolumeClaim", v.PersistentVolumeClaim.ClaimName, nil)
	case v.ConfigMap != nil:
		add(path.Child("configMap", "name"), "ConfigMap", v.ConfigMap.Name, v.ConfigMap.Optional)
	case v.Secret != nil:
		add(path.Child("secret", "secretName"), "Secret", v.Secret.SecretName, v.Secret.Optional)
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		add(path.Child("ephemeral", "volumeClaimTemplate", "spec", "storageClassName"), "StorageClass",
			ptr.Deref(v.Ephemeral.VolumeClaimTemplate.Spec.StorageClassName, ""), nil)
	case v.Projected != nil:
		for i, s := range v.Projected.Sources {
			path := path.Child("projected", "sources").Index(i)
			if s.ConfigMap != nil {
				add(path.Child("configMap", "name"), "ConfigMap", s.ConfigMap.Name, s.ConfigMap.Optional)
			}
			if s.Secret != nil {
				add(path.Child("secret", "name"), "Secret", s.Secret.Name, s.Secret.Optional)
			}
		}
	}
}

func needsOfContainer(c *corev1.Container, path *field.Path, add adding) {
	for i, e := range c.EnvFrom {
		path := path.Child("envFrom").Index(i)
		if e.ConfigMapRef != nil {
			add(path.Child("configMapRef", "name"), "ConfigMap", e.ConfigMapRef.Name, e.ConfigMapRef.Optional)
		}
		if e.SecretRef != nil {
			add(path.Child("secretRef", "name"), "Secret", e.SecretRef.Name, e.SecretRef.Optional)
		}
	}
	for i, e := range c.Env {
		if e.ValueFrom == nil {
			continue
		}
		path := path.Child("env").Index(i).Child("valueFrom")
		if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
			add(path.Child("configMapKeyRef", "name"), "ConfigMap", r.Name, r.Optional)
		}
		if r := e.ValueFrom.SecretKeyRef; r != nil {
			add(path.Child("secretKeyRef", "name"), "Secret", r.Name, r.Optional)
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
