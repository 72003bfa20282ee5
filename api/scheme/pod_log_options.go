package scheme

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// addPodLogOptions registers the conversion of the parameters of GET .../pods/NAME/log.
func addPodLogOptions(s *runtime.Scheme) error {
	return parameters(s, readPodLogOptions)
}

func readPodLogOptions(v url.Values, o *corev1.PodLogOptions) error {
	o.Container = v.Get("container")
	readFlags(v, map[string]*bool{
		"follow": &o.Follow, "previous": &o.Previous, "timestamps": &o.Timestamps,
		"insecureSkipTLSVerifyBackend": &o.InsecureSkipTLSVerifyBackend,
	})
	for name, to := range map[string]**int64{
		"sinceSeconds": &o.SinceSeconds, "tailLines": &o.TailLines, "limitBytes": &o.LimitBytes,
	} {
		if v.Get(name) == "" {
			continue
		}
		n, err := strconv.ParseInt(v.Get(name), 10, 64)
		if err != nil {
			return fmt.Errorf("%s: %q is not a number", name, v.Get(name))
		}
		*to = &n
	}
	if since := v.Get("sinceTime"); since != "" {
		t, err := time.Parse(time.RFC3339, since)
		if err != nil {
			return fmt.Errorf("sinceTime: %q is not a time as RFC 3339 has it", since)
		}
		o.SinceTime = &metav1.Time{Time: t}
	}
	if v.Has("stream") {
		stream := v.Get("stream")
		o.Stream = &stream
	}
	return nil
}

// readFlags reads booleans as a cluster does: absent, "0" and "false" in any case (Python's clients send "False") are
// false, and anything else is true.
func readFlags(v url.Values, flags map[string]*bool) {
	for name, to := range flags {
		values := v[name]
		_ = runtime.Convert_Slice_string_To_bool(&values, to, nil) // it never fails
	}
}
