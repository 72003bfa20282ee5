package scheme

import baseversion "k8s.io/component-base/version"

// KubernetesVersion returns the version of Kubernetes whose API this is, that of the libraries, with a build of jobd
// beside it unless that is empty.
func KubernetesVersion(build string) string {
	v := "v" + baseversion.DefaultKubeBinaryVersion + ".0"
	if build != "" {
		v += "+jobd-" + build
	}
	return v
}
