package objects

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// valueFields are what is read of a ConfigMap with values.
var valueFields = scheme.FieldsOf[corev1.ConfigMap]("data")

// IndexValues reads the values of a Job's indexes; nil if the Job has none, or their ConfigMap (batch.IndexEnvAnnotation) is missing.
func IndexValues(from Getter, j *batchv1.Job) (*batch.IndexValues, error) {
	return batch.IndexValuesOf(j, func(name string) (map[string]string, error) { return configMapData(from, j.Namespace, name) })
}

// PodIndexValues reads the data of the ConfigMap of which a pod has the values of its index; nil if it has none, or the ConfigMap is missing.
func PodIndexValues(from Getter, p *corev1.Pod) (map[string]string, error) {
	return configMapData(from, p.Namespace, p.Annotations[batch.IndexEnvAnnotation])
}

func configMapData(from Getter, namespace, name string) (map[string]string, error) {
	o, ok := from.Get(store.Key(ConfigMaps, namespace, name))
	if !ok {
		return nil, nil
	}
	cm := &corev1.ConfigMap{}
	if err := scheme.DecodePart(o.Value, valueFields, cm); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Key, err)
	}
	return cm.Data, nil
}
