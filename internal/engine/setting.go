package engine

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Parse returns the engines that a setting names: docker and podman, which are those of root, or NAME=SOCKET.
func Parse(list []string) (all []Engine, err error) {
	for _, text := range list {
		name, socket, own := strings.Cut(text, "=")
		usual := map[string]string{Docker: "/var/run/docker.sock", Podman: "/run/podman/podman.sock"}[name]
		switch {
		case usual == "":
			return nil, fmt.Errorf("%q is neither %s nor %s", name, Docker, Podman)
		case slices.ContainsFunc(all, func(other Engine) bool { return other.Name == name }):
			return nil, fmt.Errorf("%s is named twice", name)
		case own && !filepath.IsAbs(socket):
			return nil, fmt.Errorf("%s: %q is not the path of a socket, which begins with /", name, socket)
		case !own:
			socket = usual
		}
		all = append(all, Engine{Name: name, Socket: socket})
	}
	return all, nil
}
