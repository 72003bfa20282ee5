// Package storageclass holds the rules of storage.k8s.io/v1: StorageClass, as the description that Kind returns. Beside
// that it says which class a claim gets. All of them touch nothing but their arguments.
package storageclass

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/kind"
)

const (
	// defaultAnnotation marks the class of claims that name none.
	defaultAnnotation     = "storageclass.kubernetes.io/is-default-class"
	betaDefaultAnnotation = "storageclass.beta.kubernetes.io/is-default-class"

	// NoProvisioner is the provisioner of classes whose volumes are made by an administrator.
	NoProvisioner = "kubernetes.io/no-provisioner"

	maxParameters     = 512
	maxParametersSize = 256 << 10
)

// Local returns the class that exists from the first start on: its volumes are directories below jobd's root.
func Local() *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: "local", Annotations: map[string]string{defaultAnnotation: "true"},
		},
		Provisioner:          core.LocalProvisioner,
		ReclaimPolicy:        ptr.To(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode:    ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		AllowVolumeExpansion: ptr.To(true),
	}
}

// Default returns the class of claims that name none: of several that are marked, the newest, and of those the first by
// name. Nil: there is none.
func Default(classes []*storagev1.StorageClass) *storagev1.StorageClass {
	var chosen *storagev1.StorageClass
	for _, c := range classes {
		if !isDefault(c) {
			continue
		}
		if chosen == nil || c.CreationTimestamp.After(chosen.CreationTimestamp.Time) ||
			c.CreationTimestamp.Equal(&chosen.CreationTimestamp) && c.Name < chosen.Name {
			chosen = c
		}
	}
	return chosen
}

func isDefault(c *storagev1.StorageClass) bool {
	return c.Annotations[defaultAnnotation] == "true" || c.Annotations[betaDefaultAnnotation] == "true"
}

func setDefaults(c *storagev1.StorageClass) {
	if c.ReclaimPolicy == nil {
		c.ReclaimPolicy = ptr.To(corev1.PersistentVolumeReclaimDelete)
	}
	if c.VolumeBindingMode == nil {
		c.VolumeBindingMode = ptr.To(storagev1.VolumeBindingImmediate)
	}
}

// Parameters are those of a class whose volumes jobd creates.
type Parameters struct {
	// Loop makes each volume a file of the requested size with a file system of its own; otherwise it is a directory.
	Loop bool
	// FSType is the file system in such a file: ext4 (also if empty) or xfs.
	FSType string
	// Enforce makes it an error if the size of a directory cannot be enforced.
	Enforce bool
}

// ParametersOf returns the parameters of a class whose provisioner is jobd's.
func ParametersOf(c *storagev1.StorageClass) (Parameters, field.ErrorList) {
	var out Parameters
	var errs field.ErrorList
	path := field.NewPath("parameters")
	for _, name := range slices.Sorted(maps.Keys(c.Parameters)) {
		value, path := c.Parameters[name], path.Key(name)
		switch name {
		case "type":
			out.Loop = value == "loop"
			if !out.Loop && value != "directory" {
				errs = append(errs, field.NotSupported(path, value, []string{"directory", "loop"}))
			}
		case "fsType", "csi.storage.k8s.io/fstype":
			out.FSType = value
			if value != "ext4" && value != "xfs" {
				errs = append(errs, field.NotSupported(path, value, []string{"ext4", "xfs"}))
			}
		case "enforce":
			var err error
			if out.Enforce, err = strconv.ParseBool(value); err != nil {
				errs = append(errs, field.NotSupported(path, value, []string{"true", "false"}))
			}
		default:
			errs = append(errs, field.Forbidden(path,
				"the provisioner "+core.LocalProvisioner+" has the parameters type, fsType and enforce"))
		}
	}
	if out.FSType != "" && !out.Loop && len(errs) == 0 {
		errs = append(errs, field.Forbidden(path.Key("fsType"), "only volumes of the type loop have a file system of their own"))
	}
	return out, errs
}

func validate(c *storagev1.StorageClass) field.ErrorList {
	errs := validation.ValidateObjectMeta(&c.ObjectMeta, false, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	provisioner := field.NewPath("provisioner")
	if c.Provisioner == "" {
		errs = append(errs, field.Required(provisioner, ""))
	} else {
		for _, msg := range utilvalidation.IsQualifiedName(strings.ToLower(c.Provisioner)) {
			errs = append(errs, field.Invalid(provisioner, strings.ToLower(c.Provisioner), msg))
		}
	}
	errs = append(errs, validateParameters(c)...)
	if p := ptr.Deref(c.ReclaimPolicy, ""); p != "" && p != corev1.PersistentVolumeReclaimDelete &&
		p != corev1.PersistentVolumeReclaimRetain {
		errs = append(errs, field.NotSupported(field.NewPath("reclaimPolicy"), c.ReclaimPolicy,
			[]corev1.PersistentVolumeReclaimPolicy{corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain}))
	}
	mode := field.NewPath("volumeBindingMode")
	switch {
	case c.VolumeBindingMode == nil:
		errs = append(errs, field.Required(mode, ""))
	case *c.VolumeBindingMode != storagev1.VolumeBindingImmediate &&
		*c.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		errs = append(errs, field.NotSupported(mode, *c.VolumeBindingMode, []storagev1.VolumeBindingMode{
			storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer,
		}))
	}
	return append(errs, validateTopologies(c.AllowedTopologies)...)
}

func validateParameters(c *storagev1.StorageClass) field.ErrorList {
	path := field.NewPath("parameters")
	if len(c.Parameters) > maxParameters {
		return field.ErrorList{field.TooLong(path, "", maxParameters)}
	}
	var errs field.ErrorList
	size := 0
	for name, value := range c.Parameters {
		if name == "" {
			errs = append(errs, field.Invalid(path, name, "field can not be empty."))
		}
		size += len(name) + len(value)
	}
	if size > maxParametersSize {
		errs = append(errs, field.TooLong(path, "", maxParametersSize))
	}
	if c.Provisioner == core.LocalProvisioner && len(errs) == 0 {
		_, errs = ParametersOf(c)
		if len(c.MountOptions) > 0 {
			errs = append(errs, field.Forbidden(field.NewPath("mountOptions"),
				"the volumes of the provisioner "+core.LocalProvisioner+" are not mounted with options"))
		}
	}
	return errs
}

func validateTopologies(topologies []corev1.TopologySelectorTerm) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("allowedTopologies")
	for i, term := range topologies {
		keys := map[string]bool{}
		for j, e := range term.MatchLabelExpressions {
			at := path.Index(i).Child("matchLabelExpressions").Index(j)
			if len(e.Values) == 0 {
				errs = append(errs, field.Required(at.Child("values"), ""))
			}
			for k, value := range e.Values {
				if slices.Contains(e.Values[:k], value) {
					errs = append(errs, field.Duplicate(at.Child("values").Index(k), value))
				}
			}
			errs = append(errs, metav1validation.ValidateLabelName(e.Key, at.Child("key"))...)
			if keys[e.Key] {
				errs = append(errs, field.Duplicate(at.Child("key"), e.Key))
			}
			keys[e.Key] = true
		}
		// A term without labels counts as a duplicate, as in a cluster.
		if len(term.MatchLabelExpressions) == 0 || slices.ContainsFunc(topologies[:i], func(other corev1.TopologySelectorTerm) bool {
			return equality.Semantic.DeepEqual(values(other), values(term))
		}) {
			errs = append(errs, field.Duplicate(path.Index(i).Child("matchLabelExpressions"), ""))
		}
	}
	return errs
}

// values returns the values that a term allows for each label, in order.
func values(term corev1.TopologySelectorTerm) map[string][]string {
	out := map[string][]string{}
	for _, e := range term.MatchLabelExpressions {
		out[e.Key] = slices.Sorted(slices.Values(e.Values))
	}
	return out
}

// validateUpdate checks a changed class: volumes have been made with what it says.
func validateUpdate(c, old *storagev1.StorageClass) field.ErrorList {
	errs := validate(c)
	errs = append(errs, validation.ValidateObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))...)
	for _, f := range []struct {
		name     string
		now, was any
	}{
		{"parameters", c.Parameters, old.Parameters},
		{"provisioner", c.Provisioner, old.Provisioner},
		{"reclaimPolicy", c.ReclaimPolicy, old.ReclaimPolicy},
		{"volumeBindingMode", c.VolumeBindingMode, old.VolumeBindingMode},
	} {
		errs = append(errs, validation.ValidateImmutableField(f.now, f.was, field.NewPath(f.name))...)
	}
	return errs
}

// warnings say which classes nobody makes volumes for.
func warnings(c *storagev1.StorageClass) []string {
	if c.Provisioner == core.LocalProvisioner || c.Provisioner == NoProvisioner {
		return nil
	}
	return []string{fmt.Sprintf("provisioner: jobd has only the provisioner %s, so no volumes are created for this class",
		core.LocalProvisioner)}
}

// Kind describes storage.k8s.io/v1 StorageClasses.
func Kind() *kind.Kind {
	doc, name := storagev1.StorageClass{}.SwaggerDoc(), kind.NameColumn[*storagev1.StorageClass]()
	name.Cell = func(c *storagev1.StorageClass, _ time.Time) any {
		if isDefault(c) {
			return c.Name + " (default)"
		}
		return c.Name
	}
	return kind.Of[storagev1.StorageClass, storagev1.StorageClassList](kind.Description[*storagev1.StorageClass]{
		GroupVersion: storagev1.SchemeGroupVersion,
		Name:         "StorageClass",
		ShortNames:   []string{"sc"},
		Default:      setDefaults,
		Table: kind.Columns[*storagev1.StorageClass]{
			name,
			{Name: "Provisioner", Description: doc["provisioner"], Cell: func(c *storagev1.StorageClass, _ time.Time) any { return c.Provisioner }},
			{Name: "ReclaimPolicy", Description: doc["reclaimPolicy"], Cell: func(c *storagev1.StorageClass, _ time.Time) any {
				return string(ptr.Deref(c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete))
			}},
			{Name: "VolumeBindingMode", Description: doc["volumeBindingMode"], Cell: func(c *storagev1.StorageClass, _ time.Time) any {
				return string(ptr.Deref(c.VolumeBindingMode, storagev1.VolumeBindingImmediate))
			}},
			{Name: "AllowVolumeExpansion", Description: doc["allowVolumeExpansion"],
				Cell: func(c *storagev1.StorageClass, _ time.Time) any { return ptr.Deref(c.AllowVolumeExpansion, false) }},
			kind.AgeColumn[*storagev1.StorageClass](),
		},
		Rules: kind.Rules[*storagev1.StorageClass]{
			Check:       validate,
			CheckUpdate: validateUpdate,
			Warn:        warnings,
			WarnUpdate:  func(c, _ *storagev1.StorageClass) []string { return warnings(c) },
		},
	})
}
