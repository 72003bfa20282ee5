package main

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// standsIn makes a namespace the one that commands work in unless they name another, by a kubeconfig that is in no directory.
func standsIn(flags *genericclioptions.ConfigFlags, namespace string) error {
	fd, err := unix.MemfdCreate("kubeconfig", unix.MFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("memfd_create", err)
	}
	if _, err := unix.Write(fd, []byte(kubeconfigOf(namespace))); err != nil { // it stays open
		return os.NewSyscallError("write", err)
	}
	*flags.KubeConfig = "/proc/self/fd/" + strconv.Itoa(fd)
	return nil
}
