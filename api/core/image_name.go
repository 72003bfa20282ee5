package core

import (
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxImageName bounds the name of an image, in bytes. A cluster stores any, but no container runtime takes a name, tag and digest
// that are longer together (InvalidImageName), and each failure to pull it repeats it.
const maxImageName = 1024

// imagesOf calls fn for each name of an image in a spec.
func imagesOf(spec *corev1.PodSpec, path *field.Path, fn func(image string, path *field.Path)) {
	for i := range spec.Containers {
		fn(spec.Containers[i].Image, path.Child("containers").Index(i).Child("image"))
	}
	for i := range spec.InitContainers {
		fn(spec.InitContainers[i].Image, path.Child("initContainers").Index(i).Child("image"))
	}
	for i := range spec.EphemeralContainers {
		fn(spec.EphemeralContainers[i].Image, path.Child("ephemeralContainers").Index(i).Child("image"))
	}
	for i := range spec.Volumes {
		if image := spec.Volumes[i].Image; image != nil {
			fn(image.Reference, path.Child("volumes").Index(i).Child("image", "reference"))
		}
	}
}

// checkImages refuses names of images that are no names, unless the former spec, which may be nil, has them: of an object from
// before there was a bound, the rest can be changed.
func checkImages(spec, old *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	var known []string
	if old != nil {
		imagesOf(old, path, func(image string, _ *field.Path) { known = append(known, image) })
	}
	imagesOf(spec, path, func(image string, path *field.Path) {
		unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
		switch {
		case len(image) <= maxImageName && !strings.ContainsFunc(image, unprintable), slices.Contains(known, image):
		case len(image) > maxImageName:
			errs = append(errs, field.TooLong(path, "", maxImageName))
		default:
			errs = append(errs, field.Invalid(path, image, "must consist of printable characters"))
		}
	})
	return errs
}
