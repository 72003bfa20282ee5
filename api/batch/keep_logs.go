package batch

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// KeepLogsAnnotation of a Job says whether the logs of its pods are kept after the Job itself is gone: "true" or "false". They are then
// bounded as the logs of all pods that are gone, and end with their namespace. The pods of such a Job have it as well.
const KeepLogsAnnotation = "jobd.dev/keep-logs"

// KeepsLogs reports whether what a Job or a pod has printed outlives the Job. It does for what a manager of MultiKueue has handed out, unless
// the annotation says otherwise: that manager deletes the Job when it ends, and with it the only way to its logs.
func KeepsLogs(meta *metav1.ObjectMeta) bool {
	if keep, ok := meta.Annotations[KeepLogsAnnotation]; ok {
		return keep == "true"
	}
	return HandedOut(meta) != ""
}

// validateKeepLogs checks the annotation; path is that of the annotations.
func validateKeepLogs(annotations map[string]string, path *field.Path) field.ErrorList {
	if value, ok := annotations[KeepLogsAnnotation]; ok && value != "true" && value != "false" {
		return field.ErrorList{field.NotSupported(path.Key(KeepLogsAnnotation), value, []string{"true", "false"})}
	}
	return nil
}
