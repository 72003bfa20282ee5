package runtime

import (
	"bytes"
	"fmt"
	"os"
)

// BootID returns the ID of this run of the kernel. It changes with a reboot, which no container survives.
func BootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot id of this host: %w", err)
	}
	return string(bytes.TrimSpace(id)), nil
}
