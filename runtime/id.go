package runtime

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/jobd/jobd/internal/layout"
)

// maxIDLength is containerd's limit for identifiers.
const maxIDLength = 76

// ContainerID returns the ID of one start of one container of one pod. It is the same whenever it is asked for, so a
// start that is repeated after a crash finds the container that the first one made.
func ContainerID(podUID, container string, attempt int) string {
	id := fmt.Sprintf("%s.%s.%d", podUID, container, attempt)
	if len(id) <= maxIDLength && !strings.Contains(container, "--") {
		return id
	}
	// containerd refuses what is too long and doubled separators; both are legal names of containers.
	sum := sha256.Sum256([]byte(container))
	return fmt.Sprintf("%s.%s.%d", podUID, hex.EncodeToString(sum[:8]), attempt)
}

// ShardCgroup returns the control group that the shards of a root are in. It is beside the one of the containers, so
// that what all of those may have together leaves the shards alone.
func ShardCgroup(root string) string { return CgroupParent(root) + "-shards" }

// CgroupParent returns the control group that all pods and containers of a root's daemon are in.
func CgroupParent(root string) string {
	root = filepath.Clean(root)
	if root == layout.DefaultRoot {
		return "/jobd"
	}
	return "/" + RootName(root)
}

// RootPrefix begins every RootName.
const RootPrefix = "jobd-"

// RootName names what the daemon of a root has on this host where names are the host's: control groups and network
// interfaces, for which it is short enough. The names of two daemons do not collide.
func RootName(root string) string {
	sum := sha256.Sum256([]byte(root))
	return RootPrefix + hex.EncodeToString(sum[:4])
}
