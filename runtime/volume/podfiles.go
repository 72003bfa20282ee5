package volume

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/atomicfile"
	"github.com/jobd/jobd/runtime/oci"
)

// FilesOptions is what the files of a pod depend on besides the pod.
type FilesOptions struct {
	NodeName string
	PodIPs   []string
	// NameServer answers for the cluster's domain; empty if there is none.
	NameServer string
}

// Files writes the files of a pod, and the empty termination message of one start of a container, unless they exist,
// and returns their paths. They lie below ROOT, since containers may write to them without end, which must not fill the
// memory that STATE may be in; TearDown removes them. In another epoch the pod has other addresses, and so its files
// have other names.
func (v *Volumes) Files(pod *corev1.Pod, container *corev1.Container, attempt int, o FilesOptions) (oci.Files, error) {
	dir := v.ownFiles(string(pod.UID))
	files := oci.Files{
		Hosts:          filepath.Join(dir, "hosts."+v.node.Epoch),
		Hostname:       filepath.Join(dir, "hostname."+v.node.Epoch),
		ResolvConf:     filepath.Join(dir, "resolv.conf."+v.node.Epoch),
		TerminationLog: filepath.Join(dir, container.Name+"."+strconv.Itoa(attempt)+".message"),
	}
	hostname := oci.Hostname(pod, o.NodeName)
	hosts, err := hostsFile(pod, hostname, o.PodIPs)
	if err != nil {
		return files, err
	}
	resolv, err := resolvConf(pod, o.NameServer)
	if err != nil {
		return files, err
	}
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return files, err
	}
	for path, content := range map[string][]byte{
		files.Hosts: hosts, files.Hostname: []byte(hostname + "\n"), files.ResolvConf: resolv,
	} {
		if err := writeOnce(path, content, 0o644); err != nil {
			return files, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	if err := writeOnce(files.TerminationLog, nil, 0o666); err != nil {
		return files, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return files, nil
}

func (v *Volumes) ownFiles(uid string) string { return filepath.Join(v.rootPod(uid), "files") }

// writeOnce writes a file unless it exists: a container has it mounted, and may have written to it.
func writeOnce(path string, content []byte, mode os.FileMode) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	return atomicfile.Write(path, content, mode)
}

// hostsFile returns what a kubelet writes: the usual names of the loopback, the pod's own, and hostAliases. In the
// host's network the host's own file takes the place of the first two.
func hostsFile(pod *corev1.Pod, hostname string, ips []string) ([]byte, error) {
	var b bytes.Buffer
	if pod.Spec.HostNetwork {
		host, err := os.ReadFile("/etc/hosts")
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		b.WriteString("# Kubernetes-managed hosts file (host network).\n")
		b.Write(host)
	} else {
		b.WriteString("# Kubernetes-managed hosts file.\n" +
			"127.0.0.1\tlocalhost\n" +
			"::1\tlocalhost ip6-localhost ip6-loopback\n" +
			"fe00::\tip6-localnet\n" +
			"fe00::\tip6-mcastprefix\n" +
			"fe00::1\tip6-allnodes\n" +
			"fe00::2\tip6-allrouters\n")
		if len(ips) == 0 {
			// Without a network of its own a pod still knows its own name.
			ips = []string{"127.0.0.1"}
		}
		for _, ip := range ips {
			if fqdn := oci.FQDN(pod); fqdn != "" {
				fmt.Fprintf(&b, "%s\t%s\t%s\n", ip, fqdn, oci.ShortHostname(pod))
				continue
			}
			fmt.Fprintf(&b, "%s\t%s\n", ip, hostname)
		}
	}
	if len(pod.Spec.HostAliases) > 0 {
		b.WriteString("\n# Entries added by HostAliases.\n")
		for _, alias := range pod.Spec.HostAliases {
			fmt.Fprintf(&b, "%s\t%s\n", alias.IP, strings.Join(alias.Hostnames, "\t"))
		}
	}
	return b.Bytes(), nil
}

// maxSearches is how many search domains every resolver accepts.
const maxSearches = 32

// resolvConf returns, by dnsPolicy, the configuration of a cluster, the host's or an empty one, and in every case with
// what dnsConfig adds. Without a name server for the cluster's domain, the host's configuration takes the place of the
// cluster's.
func resolvConf(pod *corev1.Pod, nameServer string) ([]byte, error) {
	var servers, searches, options []string
	if pod.Spec.DNSPolicy != corev1.DNSNone {
		host, err := os.ReadFile("/etc/resolv.conf")
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		servers, searches, options = parseResolvConf(string(host))
		switch {
		case nameServer == "":
		case asksCluster(pod):
			servers = []string{nameServer}
			services := "svc." + oci.ClusterDomain
			searches = append([]string{pod.Namespace + "." + services, services, oci.ClusterDomain}, searches...)
			options = []string{"ndots:5"}
		case !pod.Spec.HostNetwork:
			// A pod cannot reach the host's loopback; our server asks there on its behalf.
			for i, s := range servers {
				if ip, err := netip.ParseAddr(s); err == nil && ip.IsLoopback() {
					servers[i] = nameServer
				}
			}
		}
	} else if pod.Spec.DNSConfig == nil {
		return nil, fmt.Errorf("dnsPolicy None without dnsConfig: %w", errdefs.ErrInvalidArgument)
	}
	if c := pod.Spec.DNSConfig; c != nil {
		servers = append(servers, c.Nameservers...)
		searches = append(searches, c.Searches...)
		for _, o := range c.Options {
			option := o.Name
			if o.Value != nil {
				option += ":" + *o.Value
			}
			// It replaces any option of that name.
			options = slices.DeleteFunc(options, func(have string) bool {
				name, _, _ := strings.Cut(have, ":")
				return name == o.Name
			})
			options = append(options, option)
		}
	}
	servers, searches = unique(servers), unique(searches)
	var b bytes.Buffer
	if len(searches) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(searches[:min(len(searches), maxSearches)], " "))
	}
	for _, server := range servers {
		fmt.Fprintf(&b, "nameserver %s\n", server)
	}
	if len(options) > 0 {
		fmt.Fprintf(&b, "options %s\n", strings.Join(options, " "))
	}
	return b.Bytes(), nil
}

// asksCluster reports whether a pod resolves the names of the cluster (PodSpec.DNSPolicy). A pod in the host's network
// has to ask for that.
func asksCluster(pod *corev1.Pod) bool {
	switch pod.Spec.DNSPolicy {
	case corev1.DNSClusterFirstWithHostNet:
		return true
	case corev1.DNSClusterFirst, "":
		return !pod.Spec.HostNetwork
	}
	return false
}

// unique drops repetitions.
func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func parseResolvConf(content string) (servers, searches, options []string) {
	for line := range strings.Lines(content) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			servers = append(servers, fields[1])
		case "search":
			searches = fields[1:]
		case "options":
			options = append(options, fields[1:]...)
		}
	}
	return servers, searches, options
}
