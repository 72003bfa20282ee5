package scheme

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// addPodStreamOptions registers the conversions of the parameters of .../pods/NAME/exec, attach, portforward
// and proxy.
func addPodStreamOptions(s *runtime.Scheme) error {
	return errors.Join(
		parameters(s, func(v url.Values, o *corev1.PodExecOptions) error {
			o.Container, o.Command = v.Get("container"), v["command"]
			readStreams(v, &o.Stdin, &o.Stdout, &o.Stderr, &o.TTY)
			return nil
		}),
		parameters(s, func(v url.Values, o *corev1.PodAttachOptions) error {
			o.Container = v.Get("container")
			readStreams(v, &o.Stdin, &o.Stdout, &o.Stderr, &o.TTY)
			return nil
		}),
		parameters(s, func(v url.Values, o *corev1.PodProxyOptions) error {
			o.Path = v.Get("path")
			return nil
		}),
		parameters(s, func(v url.Values, o *corev1.ServiceProxyOptions) error {
			o.Path = v.Get("path")
			return nil
		}),
		parameters(s, func(v url.Values, o *corev1.PodPortForwardOptions) error {
			for _, text := range v["ports"] {
				port, err := strconv.ParseUint(text, 10, 16)
				if err != nil || port == 0 {
					return fmt.Errorf("ports: %q is no port", text)
				}
				o.Ports = append(o.Ports, int32(port))
			}
			return nil
		}),
	)
}

func readStreams(v url.Values, stdin, stdout, stderr, tty *bool) {
	readFlags(v, map[string]*bool{"stdin": stdin, "stdout": stdout, "stderr": stderr, "tty": tty})
}
