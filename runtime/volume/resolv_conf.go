package volume

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/jobd/jobd/internal/files"
	"github.com/jobd/jobd/runtime/oci"
)

// Limits of resolvers, as in clusters.
const (
	maxServers    = 3
	maxSearches   = 32
	maxSearchLine = 2048 // bytes of all search domains, with the spaces between them
	maxDomain     = 253  // bytes
)

// resolvConf returns, by dnsPolicy, the configuration of a cluster, the host's or an empty one, and in every case with
// what dnsConfig adds. Without a name server for the cluster's domain, the host's configuration takes the place of the
// cluster's. What resolvers do not take is left out, as a kubelet leaves it out, and omitted says so in its words.
func resolvConf(pod *corev1.Pod, nameServer string) (content []byte, omitted []string, err error) {
	var servers, searches, options []string
	if pod.Spec.DNSPolicy != corev1.DNSNone {
		host, err := files.Read("/etc/resolv.conf")
		if err != nil && !os.IsNotExist(err) {
			return nil, nil, err
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
		return nil, nil, fmt.Errorf("dnsPolicy None without dnsConfig: %w", errdefs.ErrInvalidArgument)
	}
	if c := pod.Spec.DNSConfig; c != nil {
		servers = append(servers, c.Nameservers...)
		searches = append(searches, c.Searches...)
		options = replaceOptions(options, c.Options)
	}
	servers, fewer := limitServers(unique(servers))
	searches, shorter := limitSearches(unique(searches))
	if fewer {
		omitted = append(omitted, "Nameserver limits were exceeded, some nameservers have been omitted, "+
			"the applied nameserver line is: "+strings.Join(servers, " "))
	}
	if shorter {
		omitted = append(omitted, "Search Line limits were exceeded, some search paths have been omitted, "+
			"the applied search line is: "+strings.Join(searches, " "))
	}
	var b bytes.Buffer
	if len(searches) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(searches, " "))
	}
	for _, server := range servers {
		fmt.Fprintf(&b, "nameserver %s\n", server)
	}
	if len(options) > 0 {
		fmt.Fprintf(&b, "options %s\n", strings.Join(options, " "))
	}
	return b.Bytes(), omitted, nil
}

// replaceOptions adds options, each of which replaces those of its name before it.
func replaceOptions(options []string, added []corev1.PodDNSConfigOption) []string {
	replaced := sets.New[string]()
	keep := func(option string) bool {
		name, _, _ := strings.Cut(option, ":")
		return !replaced.Has(name)
	}
	var last []string // from the end
	for _, o := range slices.Backward(added) {
		option := o.Name
		if o.Value != nil {
			option += ":" + *o.Value
		}
		if keep(option) {
			last = append(last, option)
		}
		replaced.Insert(o.Name)
	}
	slices.Reverse(last)
	options = slices.DeleteFunc(options, func(option string) bool { return !keep(option) })
	return append(options, last...)
}

// limitServers returns the name servers that resolvers ask, and whether there are more.
func limitServers(servers []string) (kept []string, omitted bool) {
	return servers[:min(len(servers), maxServers)], len(servers) > maxServers
}

// limitSearches returns the search domains that resolvers take, and whether there are more: the first ones, without those
// that no name can be in, at which some resolvers abort.
func limitSearches(searches []string) (kept []string, omitted bool) {
	length := 0
	for _, domain := range searches[:min(len(searches), maxSearches)] {
		switch {
		case len(domain) > maxDomain:
			continue
		case length+len(domain) > maxSearchLine:
			return kept, true
		}
		length += len(domain) + 1
		kept = append(kept, domain)
	}
	return kept, len(kept) < len(searches)
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
	known := sets.New[string]()
	for _, s := range list {
		if !known.Has(s) {
			out = append(out, s)
		}
		known.Insert(s)
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
