package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
)

// Environment is what the engine of a user depends on.
type Environment struct {
	Getenv   func(string) string
	Home     string
	UID      int
	LookPath func(string) (string, error)
}

// Own is the environment of this process.
func Own() Environment {
	home, _ := os.UserHomeDir() // without one there is nothing in it
	return Environment{Getenv: os.Getenv, Home: home, UID: os.Geteuid(), LookPath: exec.LookPath}
}

// Mine returns the Docker or podman that the user's own commands use: where it listens, or else its program.
func Mine(name string, in Environment) (Engine, error) {
	sockets, named := in.sockets(name)
	var denied error
	for _, socket := range sockets {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
			return Engine{Name: name, Socket: socket}, nil
		}
		if errors.Is(err, os.ErrPermission) && denied == nil {
			denied = (Engine{Name: name, Socket: socket}).about("", err)
		}
	}
	if program, err := in.LookPath(name); err == nil && denied == nil {
		return Engine{Name: name, Program: program}, nil
	}
	switch {
	case denied != nil:
		return Engine{}, denied
	case len(sockets) == 0:
		return Engine{}, fail(errdefs.ErrUnavailable, "%s is at %s, for which its program is needed, and there is no program %s", name, named, name)
	}
	return Engine{}, fail(errdefs.ErrUnavailable, "%s does not run here: nothing listens at %s, and there is no program %s",
		name, strings.Join(sockets, " or "), name)
}

// sockets returns where the engine may listen, in the order in which to try. There are none if it was said to be elsewhere than at a
// unix socket.
func (in Environment) sockets(name string) (all []string, named string) {
	named = in.Getenv("DOCKER_HOST")
	switch {
	case name == Podman:
		named = in.Getenv("CONTAINER_HOST")
	case named == "":
		named = in.contextHost()
	}
	if named != "" {
		if path, ok := strings.CutPrefix(named, "unix://"); ok {
			return []string{path}, named
		}
		return nil, named
	}
	private := in.Getenv("XDG_RUNTIME_DIR")
	if name == Podman {
		if in.UID == 0 {
			return []string{"/run/podman/podman.sock"}, ""
		}
		if private == "" {
			private = fmt.Sprintf("/run/user/%d", in.UID)
		}
		return []string{filepath.Join(private, "podman", "podman.sock")}, ""
	}
	all = []string{"/var/run/docker.sock"}
	if private != "" {
		all = append(all, filepath.Join(private, "docker.sock"))
	}
	if in.Home != "" {
		all = append(all, filepath.Join(in.Home, ".docker", "run", "docker.sock"))
	}
	return all, ""
}

// contextHost returns the address in the docker context that is in use; empty for the default one, and for one that cannot be read.
func (in Environment) contextHost() string {
	dir := in.Getenv("DOCKER_CONFIG")
	if dir == "" {
		dir = filepath.Join(in.Home, ".docker")
	}
	current := in.Getenv("DOCKER_CONTEXT")
	if current == "" {
		var config struct{ CurrentContext string }
		read(filepath.Join(dir, "config.json"), &config)
		current = config.CurrentContext
	}
	if current == "" || current == "default" {
		return ""
	}
	id := sha256.Sum256([]byte(current))
	var meta struct {
		Endpoints map[string]struct{ Host string }
	}
	read(filepath.Join(dir, "contexts", "meta", hex.EncodeToString(id[:]), "meta.json"), &meta)
	return meta.Endpoints["docker"].Host
}

// read decodes a file of docker's. What cannot be read says nothing.
func read(path string, into any) {
	if raw, err := os.ReadFile(path); err == nil {
		_ = json.Unmarshal(raw, into)
	}
}
