package oci

import corev1 "k8s.io/api/core/v1"

// Parts of /proc and /sys that reveal something about the host, or that root in a container could use to change it.
var (
	defaultMaskedPaths = []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
		"/sys/devices/virtual/powercap",
	}
	defaultReadonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

func maskedPaths(c *corev1.Container) []string {
	if unmasked(c) {
		return nil
	}
	return defaultMaskedPaths
}

func readonlyPaths(c *corev1.Container) []string {
	if unmasked(c) {
		return nil
	}
	return defaultReadonlyPaths
}

func unmasked(c *corev1.Container) bool {
	procMount := security(c).ProcMount
	return privileged(c) || procMount != nil && *procMount == corev1.UnmaskedProcMount
}
