package core

import (
	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxEnvFileKey is the longest name of a variable in a file.
const maxEnvFileKey = 128

// envFiles checks the variables that come from files (EnvVarSource.FileKeyRef): they must be in a volume that a
// container of the Pod can have written to.
func (p *podContext) envFiles(vars []corev1.EnvVar, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range vars {
		if vars[i].ValueFrom == nil || vars[i].ValueFrom.FileKeyRef == nil {
			continue
		}
		ref, at := vars[i].ValueFrom.FileKeyRef, path.Index(i).Child("valueFrom", "fileKeyRef")
		if ref.VolumeName != "" {
			errs = append(errs, dnsLabel(at.Child("volumeName"), ref.VolumeName)...)
		}
		switch volume, known := p.volumes[ref.VolumeName]; {
		case ref.VolumeName == "":
			errs = append(errs, field.Required(at.Child("volumeName"), ""))
		case !known:
			errs = append(errs, field.NotFound(at.Child("volumeName"), ref.VolumeName))
		case volume.EmptyDir == nil:
			errs = append(errs, field.Invalid(at.Child("volumeName"), ref.VolumeName,
				"referenced volume must be of type emptyDir"))
		}
		errs = append(errs, validateFilePath(ref.Path, at.Child("path"))...)
		switch {
		case ref.Key == "":
			errs = append(errs, field.Required(at.Child("key"), ""))
		case len(ref.Key) > maxEnvFileKey:
			errs = append(errs, field.TooLong(at.Child("key"), ref.Key, maxEnvFileKey))
		default:
			errs = append(errs, invalid(at.Child("key"), ref.Key, utilvalidation.IsRelaxedEnvVarName(ref.Key))...)
		}
	}
	return errs
}
