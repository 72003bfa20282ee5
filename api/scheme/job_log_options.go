package scheme

import (
	"net/url"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jobd/jobd/api/batch"
)

// addJobLogOptions registers the conversion of the parameters of GET .../jobs/NAME/log.
func addJobLogOptions(s *runtime.Scheme) error {
	s.AddKnownTypes(batchv1.SchemeGroupVersion, &batch.JobLogOptions{})
	s.AddKnownTypes(schema.GroupVersion{Group: batchv1.GroupName, Version: runtime.APIVersionInternal},
		&batch.JobLogOptions{})
	return parameters(s, readJobLogOptions)
}

func readJobLogOptions(v url.Values, o *batch.JobLogOptions) error {
	var p corev1.PodLogOptions
	if err := readPodLogOptions(v, &p); err != nil {
		return err
	}
	o.Container, o.Follow, o.Previous, o.Timestamps = p.Container, p.Follow, p.Previous, p.Timestamps
	o.SinceSeconds, o.SinceTime, o.TailLines, o.LimitBytes = p.SinceSeconds, p.SinceTime, p.TailLines, p.LimitBytes
	o.Stream = v.Get("stream")
	readFlags(v, map[string]*bool{
		"allContainers": &o.AllContainers, "allRestarts": &o.AllRestarts, "prefix": &o.Prefix,
		"missing": &o.Missing,
	})
	return nil
}
