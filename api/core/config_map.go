package core

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/kind"
)

// validateConfigMap checks a ConfigMap, new or changed.
func validateConfigMap(cm *corev1.ConfigMap) field.ErrorList {
	errs := validation.ValidateObjectMeta(&cm.ObjectMeta, true, validation.NameIsDNSSubdomain,
		field.NewPath("metadata"))
	size := 0
	for _, key := range sortedKeys(cm.Data) {
		path := field.NewPath("data").Key(key)
		errs = append(errs, invalid(path, key, utilvalidation.IsConfigMapKey(key))...)
		if _, twice := cm.BinaryData[key]; twice {
			errs = append(errs, field.Invalid(path, key, "duplicate of key present in binaryData"))
		}
		size += len(cm.Data[key])
	}
	for _, key := range sortedKeys(cm.BinaryData) {
		errs = append(errs, invalid(field.NewPath("binaryData").Key(key), key, utilvalidation.IsConfigMapKey(key))...)
		size += len(cm.BinaryData[key])
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(field.NewPath(""), "", corev1.MaxSecretSize))
	}
	return errs
}

// validateConfigMapUpdate checks a changed ConfigMap: one that is immutable stays as it is.
func validateConfigMapUpdate(cm, old *corev1.ConfigMap) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&cm.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, heldImmutable(old.Immutable, cm.Immutable,
		part{"data", equality.Semantic.DeepEqual(cm.Data, old.Data)},
		part{"binaryData", equality.Semantic.DeepEqual(cm.BinaryData, old.BinaryData)})...)
	return append(errs, validateConfigMap(cm)...)
}

// part is a field, and whether a write leaves it unchanged.
type part struct {
	name string
	same bool
}

// heldImmutable implements the rule of `immutable`, which ConfigMaps and Secrets share.
func heldImmutable(old, now *bool, parts ...part) field.ErrorList {
	if old == nil || !*old {
		return nil
	}
	var errs field.ErrorList
	for _, p := range append([]part{{"immutable", now != nil && *now}}, parts...) {
		if !p.same {
			errs = append(errs, field.Forbidden(field.NewPath(p.name), "field is immutable when `immutable` is set"))
		}
	}
	return errs
}

// configMapTable is what kubectl prints of ConfigMaps.
func configMapTable() kind.Columns[*corev1.ConfigMap] {
	return kind.Columns[*corev1.ConfigMap]{
		kind.NameColumn[*corev1.ConfigMap](),
		{Name: "Data", Description: corev1.ConfigMap{}.SwaggerDoc()["data"],
			Cell: func(cm *corev1.ConfigMap, _ time.Time) any { return int64(len(cm.Data) + len(cm.BinaryData)) }},
		kind.AgeColumn[*corev1.ConfigMap](),
	}
}
