package containerd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/runtime/untrusted"
)

// passwdCache holds the user files of images, which never change.
type passwdCache struct {
	mu     sync.Mutex
	images map[string]userFiles // by chain id
}

type userFiles struct{ passwd, group []byte } // nil: there is none

const (
	// maxKnownImages is the number of images about which facts are remembered before all of them are forgotten.
	maxKnownImages = 256
	maxPasswdSize  = 1 << 20 // bytes
)

// resolveUser replaces the user's name with numbers, which it looks up in the files of the image below a new snapshot.
func (r *Runtime) resolveUser(spec *specs.Spec, chainID string, mounts []mount.Mount) error {
	if spec.Process.User.Username == "" {
		return nil
	}
	files, err := r.passwd.get(chainID, func() (userFiles, error) { return readUserFiles(r.config.State, mounts) })
	if err != nil {
		return err
	}
	return oci.ResolveUser(spec, reader(files.passwd), reader(files.group))
}

func reader(content []byte) io.Reader {
	if content == nil {
		return nil
	}
	return bytes.NewReader(content)
}

func (c *passwdCache) get(chainID string, read func() (userFiles, error)) (userFiles, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if files, ok := c.images[chainID]; ok {
		return files, nil
	}
	files, err := read()
	if err != nil {
		return files, err
	}
	if c.images == nil || len(c.images) >= maxKnownImages {
		c.images = map[string]userFiles{}
	}
	c.images[chainID] = files
	return files, nil
}

func readUserFiles(state string, mounts []mount.Mount) (files userFiles, err error) {
	root, err := openImage(state, mounts)
	if root == nil || err != nil {
		return files, err
	}
	defer root.Close()
	dir := fmt.Sprintf("/proc/self/fd/%d", root.Fd())
	if files.passwd, err = readUserFile(dir, "etc/passwd"); err != nil {
		return files, err
	}
	files.group, err = readUserFile(dir, "etc/group")
	return files, err
}

// readUserFile returns nil for a file that the image does not have. A file that is not a regular one is refused, since
// the OCI runtime opens it too, and would wait for whoever writes to a FIFO.
func readUserFile(dir, name string) ([]byte, error) {
	content, err := untrusted.Read(dir, name, untrusted.Root, maxPasswdSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	return content, nil
}
