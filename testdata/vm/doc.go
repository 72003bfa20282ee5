// Package vm runs jobd on the kernel that users have: Debian's cloud kernel with cgroup v2 alone, in an emulated machine
// that can be rebooted and that loses its power. `make e2e-vm` runs it.
package vm
