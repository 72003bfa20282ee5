package volume

import (
	"os"
	"path/filepath"
)

// sharedMemorySize is how much shared memory a pod has in a cluster, unless it mounts a volume there.
const sharedMemorySize = 64 << 20

// SharedMemory ensures that a pod has memory that its containers share at /dev/shm, and returns its path: a tmpfs below
// STATE, which TearDown removes. All users may write to it, whatever the fsGroup.
func (v *Volumes) SharedMemory(podUID string) (string, error) {
	parent := v.statePod(podUID)
	if err := os.MkdirAll(parent, 0o711); err != nil {
		return "", err
	}
	dir := sharedMemoryPlace(parent)
	return dir, mountTmpfs(dir, sharedMemorySize, 0o1777, -1)
}

func sharedMemoryPlace(pod string) string { return filepath.Join(pod, "shm") }
