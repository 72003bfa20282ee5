package volume

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/internal/files"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/oci"
)

// FilesOptions is what the files of a pod depend on besides the pod.
type FilesOptions struct {
	NodeName string
	PodIPs   []string
	// NameServer answers for the cluster's domain; empty if there is none.
	NameServer string
	// Warn is called with the reason and the message of an event about what was left out of a file. It may be nil.
	Warn func(reason, message string)
}

// Files writes the files of a pod, and the empty termination message of one start of a container, unless they exist,
// and returns their paths. They lie below ROOT, since containers may write to them without end, which must not fill the
// memory that STATE may be in; TearDown removes them. In another epoch the pod has other addresses, and so its files
// have other names.
func (v *Volumes) Files(pod *corev1.Pod, container *corev1.Container, attempt int, o FilesOptions) (oci.Files, error) {
	dir := v.ownFiles(string(pod.UID))
	paths := oci.Files{
		Hosts:          filepath.Join(dir, "hosts."+v.node.Epoch),
		Hostname:       filepath.Join(dir, "hostname."+v.node.Epoch),
		ResolvConf:     filepath.Join(dir, "resolv.conf."+v.node.Epoch),
		TerminationLog: filepath.Join(dir, container.Name+"."+strconv.Itoa(attempt)+".message"),
	}
	hostname := oci.Hostname(pod, o.NodeName)
	hosts, err := hostsFile(pod, hostname, o.PodIPs)
	if err != nil {
		return paths, err
	}
	resolv, omitted, err := resolvConf(pod, o.NameServer)
	if err != nil {
		return paths, err
	}
	for _, message := range omitted {
		if o.Warn != nil {
			o.Warn("DNSConfigForming", message)
		}
	}
	if err := files.MkdirAll(dir, 0o711); err != nil {
		return paths, err
	}
	for path, content := range map[string][]byte{
		paths.Hosts: hosts, paths.Hostname: []byte(hostname + "\n"), paths.ResolvConf: resolv,
	} {
		if err := writeOnce(path, content, 0o644); err != nil {
			return paths, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	if err := writeOnce(paths.TerminationLog, nil, 0o666); err != nil {
		return paths, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return paths, nil
}

func (v *Volumes) ownFiles(uid string) string { return filepath.Join(v.rootPod(uid), "files") }

// unfinished is the mode of a file until it is complete. One that is found like this, which nobody may read, was left by a
// daemon that was killed. To write each file under another name first would cost the disk a third more.
const unfinished os.FileMode = 0o200

// writeOnce writes a file unless it exists: a container has it mounted, and may have written to it.
func writeOnce(path string, content []byte, mode os.FileMode) error {
	finish := func(fd int) error {
		crash.At("volume.pod-file.written")
		return os.NewSyscallError("fchmod", unix.Fchmod(fd, uint32(mode)))
	}
	err := files.CreateThen(path, content, unfinished, finish)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Perm()&^unfinished != 0 {
		return err
	}
	return files.WriteThen(path, content, unfinished, finish)
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
