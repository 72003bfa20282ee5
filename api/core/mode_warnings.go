package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// decimalModes are modes of files of which somebody has written the digits without the zero that makes them octal in YAML. As
// decimal numbers they are modes too, though none that anybody wants; others, such as 600, are refused.
var decimalModes = map[int32]string{400: "0400", 440: "0440", 444: "0444", 500: "0500"}

// modesInDecimal warns of modes of files in volumes that were meant to be octal.
func modesInDecimal(spec *corev1.PodSpec, path *field.Path) (out []string) {
	check := func(mode *int32, at *field.Path) {
		if mode == nil {
			return
		}
		if meant, ok := decimalModes[*mode]; ok {
			out = append(out, fmt.Sprintf("%s: %d is a decimal number, and the mode %#o: for the mode %s write %s in YAML, and %d in JSON",
				at, *mode, *mode, meant, meant, octal(meant)))
		}
	}
	keys := func(items []corev1.KeyToPath, at *field.Path) {
		for i := range items {
			check(items[i].Mode, at.Child("items").Index(i).Child("mode"))
		}
	}
	fields := func(items []corev1.DownwardAPIVolumeFile, at *field.Path) {
		for i := range items {
			check(items[i].Mode, at.Child("items").Index(i).Child("mode"))
		}
	}
	for i := range spec.Volumes {
		v, at := &spec.Volumes[i], path.Child("volumes").Index(i)
		if s := v.Secret; s != nil {
			check(s.DefaultMode, at.Child("secret", "defaultMode"))
			keys(s.Items, at.Child("secret"))
		}
		if s := v.ConfigMap; s != nil {
			check(s.DefaultMode, at.Child("configMap", "defaultMode"))
			keys(s.Items, at.Child("configMap"))
		}
		if s := v.DownwardAPI; s != nil {
			check(s.DefaultMode, at.Child("downwardAPI", "defaultMode"))
			fields(s.Items, at.Child("downwardAPI"))
		}
		if v.Projected == nil {
			continue
		}
		at = at.Child("projected")
		check(v.Projected.DefaultMode, at.Child("defaultMode"))
		for n := range v.Projected.Sources {
			source, at := &v.Projected.Sources[n], at.Child("sources").Index(n)
			if s := source.Secret; s != nil {
				keys(s.Items, at.Child("secret"))
			}
			if s := source.ConfigMap; s != nil {
				keys(s.Items, at.Child("configMap"))
			}
			if s := source.DownwardAPI; s != nil {
				fields(s.Items, at.Child("downwardAPI"))
			}
		}
	}
	return out
}

func octal(digits string) (n int) {
	for _, d := range digits {
		n = 8*n + int(d-'0')
	}
	return n
}
