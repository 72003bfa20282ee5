package scheme

import (
	"fmt"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
)

// addPodStreamOptions registers the conversions of the parameters of .../pods/NAME/exec, attach, portforward
// and proxy.
func addPodStreamOptions(s *runtime.Scheme) error {
	if err := s.AddConversionFunc((*url.Values)(nil), (*corev1.PodExecOptions)(nil), func(a, b any, _ conversion.Scope) error {
		v, o := *a.(*url.Values), b.(*corev1.PodExecOptions)
		o.Container, o.Command = v.Get("container"), v["command"]
		readStreams(v, &o.Stdin, &o.Stdout, &o.Stderr, &o.TTY)
		return nil
	}); err != nil {
		return err
	}
	if err := s.AddConversionFunc((*url.Values)(nil), (*corev1.PodAttachOptions)(nil), func(a, b any, _ conversion.Scope) error {
		v, o := *a.(*url.Values), b.(*corev1.PodAttachOptions)
		o.Container = v.Get("container")
		readStreams(v, &o.Stdin, &o.Stdout, &o.Stderr, &o.TTY)
		return nil
	}); err != nil {
		return err
	}
	if err := s.AddConversionFunc((*url.Values)(nil), (*corev1.PodProxyOptions)(nil), func(a, b any, _ conversion.Scope) error {
		v, o := *a.(*url.Values), b.(*corev1.PodProxyOptions)
		o.Path = v.Get("path")
		return nil
	}); err != nil {
		return err
	}
	if err := s.AddConversionFunc((*url.Values)(nil), (*corev1.ServiceProxyOptions)(nil), func(a, b any, _ conversion.Scope) error {
		v, o := *a.(*url.Values), b.(*corev1.ServiceProxyOptions)
		o.Path = v.Get("path")
		return nil
	}); err != nil {
		return err
	}
	return s.AddConversionFunc((*url.Values)(nil), (*corev1.PodPortForwardOptions)(nil), func(a, b any, _ conversion.Scope) error {
		v, o := *a.(*url.Values), b.(*corev1.PodPortForwardOptions)
		for _, text := range v["ports"] {
			port, err := strconv.ParseUint(text, 10, 16)
			if err != nil || port == 0 {
				return fmt.Errorf("ports: %q is no port", text)
			}
			o.Ports = append(o.Ports, int32(port))
		}
		return nil
	})
}

func readStreams(v url.Values, stdin, stdout, stderr, tty *bool) {
	readFlags(v, map[string]*bool{"stdin": stdin, "stdout": stdout, "stderr": stderr, "tty": tty})
}
