package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/cli/cli/config/configfile"
	"github.com/docker/cli/cli/config/types"
)

// dockerHub is the key of Docker Hub's credentials in a Docker config.
const dockerHub = "https://index.docker.io/v1/"

// credentialHelperTimeout bounds a credential helper, which is a program of somebody else's.
const credentialHelperTimeout = 30 * time.Second

// credentials gives user and secret for a registry's host, empty when none are configured. With an empty user the
// secret is an identity token.
func (i *Images) credentials(ctx context.Context, host string) (user, secret string, err error) {
	if host == "docker.io" || host == "registry-1.docker.io" || host == "index.docker.io" {
		host = dockerHub
	}
	for _, path := range i.dockerConfigs() {
		auth, err := readCredentials(ctx, path, host)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return "", "", fmt.Errorf("credentials for %s: %w", host, err)
		case auth.IdentityToken != "":
			return "", auth.IdentityToken, nil
		case auth.Username != "":
			return auth.Username, auth.Password, nil
		case auth.RegistryToken != "":
			return "", "", fmt.Errorf("credentials for %s: %s: a registrytoken is not supported: %w", host, path, errdefs.ErrNotImplemented)
		}
	}
	return "", "", nil
}

// dockerConfigs lists the files to ask, the first one first.
func (i *Images) dockerConfigs() []string {
	var paths []string
	if i.options.DockerConfigPath != "" {
		paths = append(paths, i.options.DockerConfigPath)
	}
	if dir := os.Getenv("DOCKER_CONFIG"); dir != "" {
		paths = append(paths, filepath.Join(dir, "config.json"))
	} else if home, err := os.UserHomeDir(); err == nil {
		paths = append(paths, filepath.Join(home, ".docker", "config.json"))
	}
	return paths
}

func readCredentials(ctx context.Context, path, host string) (types.AuthConfig, error) {
	f, err := os.Open(path)
	if err != nil {
		return types.AuthConfig{}, err
	}
	defer f.Close()
	config := configfile.New(path)
	if err := config.LoadFromReader(f); err != nil {
		return types.AuthConfig{}, fmt.Errorf("%s: %w", path, err)
	}
	type answer struct {
		auth types.AuthConfig
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		auth, err := config.GetAuthConfig(host)
		answers <- answer{auth, err}
	}()
	ctx, cancel := context.WithTimeout(ctx, credentialHelperTimeout)
	defer cancel()
	select {
	case a := <-answers:
		if a.err != nil {
			return types.AuthConfig{}, fmt.Errorf("%s: %w", path, a.err)
		}
		return a.auth, nil
	case <-ctx.Done():
		return types.AuthConfig{}, fmt.Errorf("%s: its credential helper does not answer: %w", path, ctx.Err())
	}
}
