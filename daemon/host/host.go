// Package host describes the machine that the daemon runs on: its name, what it has, and the Node object that clients
// see. It reads the machine and writes nothing.
package host

import (
	"fmt"
	"net"
	"os"
	goruntime "runtime"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime"
)

// Host is the machine as pods see it: the node to which they are bound.
type Host struct {
	Name string // as nodeName returns it
	IP   string
	// Boot identifies this run of the kernel. It changes with a reboot.
	Boot string
}

// Read reads the name, the boot and the address of this machine.
func Read() (Host, error) {
	name, err := os.Hostname()
	if err != nil {
		return Host{}, fmt.Errorf("host name: %w", err)
	}
	boot, err := runtime.BootID()
	if err != nil {
		return Host{}, err
	}
	return Host{Name: nodeName(name), IP: address(), Boot: boot}, nil
}

// The names that some labels had before Kubernetes 1.14. Kubelets still set them.
const (
	labelOSBeta   = "beta.kubernetes.io/os"
	labelArchBeta = "beta.kubernetes.io/arch"
)

// Labels returns the labels that nodeSelector and node affinity may name.
func (h Host) Labels() map[string]string {
	return map[string]string{
		corev1.LabelHostname: h.Name, corev1.LabelOSStable: goruntime.GOOS, corev1.LabelArchStable: goruntime.GOARCH,
		labelOSBeta: goruntime.GOOS, labelArchBeta: goruntime.GOARCH,
	}
}

// address returns this machine's first address that others could reach, or else the loopback address. (apimachinery's
// ChooseHostInterface needs a default route, which an isolated machine lacks, and may choose IPv6.)
func address() string {
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}
