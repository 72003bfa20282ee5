package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/docker/cli/cli/config/configfile"
	"github.com/docker/cli/cli/config/types"
)

// dockerHub is the key of Docker Hub's credentials in a Docker config.
const dockerHub = "https://index.docker.io/v1/"

// credentialHelperTimeout bounds a credential helper, which is not a program of ours.
const credentialHelperTimeout = 30 * time.Second

// credentials returns the credentials for a repository at a registry's host: those of a pod, and then those of this
// machine.
func (i *Images) credentials(ctx context.Context, own keyring, host, repository string) ([]credential, error) {
	found := own.lookUp(host, repository)
	for _, path := range i.dockerConfigs() {
		more, err := readCredentials(ctx, path, host, repository)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

// dockerConfigs returns the files to look in, in order.
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

// readCredentials returns the credentials that a Docker config contains, or gets from a helper.
func readCredentials(ctx context.Context, path, host, repository string) ([]credential, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	config := configfile.New(path)
	if err := config.LoadFromReader(f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	found := keysOf(config).lookUp(host, repository)
	if config.CredentialsStore == "" && len(config.CredentialHelpers) == 0 {
		return found, nil
	}
	type answer struct {
		auth types.AuthConfig
		err  error
	}
	answers := make(chan answer, 1)
	if known, _ := splitPort(host); known == "docker.io" {
		host = dockerHub
	}
	go func() {
		auth, err := config.GetAuthConfig(host)
		answers <- answer{auth, err}
	}()
	ctx, cancel := context.WithTimeout(ctx, credentialHelperTimeout)
	defer cancel()
	select {
	case a := <-answers:
		if a.err != nil {
			return nil, fmt.Errorf("%s: %w", path, a.err)
		}
		if a.auth.Username != "" || a.auth.IdentityToken != "" {
			found = append(found, credential{AuthConfig: a.auth})
		}
		return found, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: its credential helper does not answer: %w", path, ctx.Err())
	}
}
