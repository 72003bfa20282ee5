package image

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/docker/cli/cli/config/configfile"
	"github.com/docker/cli/cli/config/types"
	corev1 "k8s.io/api/core/v1"
	apitypes "k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/runtime"
)

// keyring holds credentials, and finds them as a kubelet does.
type keyring []key

// key has the credentials for what a pattern matches: HOST[:PORT][/PATH], where parts of the host between dots may
// contain wildcards, and the path is a prefix of the repository's name.
type key struct {
	host, port, path string
	credential
}

// credential is what a registry is shown.
type credential struct {
	types.AuthConfig
	own    bool         // belongs to a pod, not to this machine
	secret apitypes.UID // the Secret that contains it
	entry  string       // what access returns, of one that belongs to a pod
}

// maxKeys bounds the credentials in the pull secrets of one pod: an image is asked for with each that matches.
const maxKeys = 1000

// keyringOf returns the credentials of a pod.
func keyringOf(secrets *runtime.PullSecrets) (keyring, error) {
	all, err := secrets.Read(func(list []corev1.Secret) (any, error) { return pullSecrets(list) })
	if err != nil {
		return nil, err
	}
	return all.(keyring), nil
}

// pullSecrets returns the credentials in Secrets (PodSpec.ImagePullSecrets); Secrets of other types have none. Within a
// Secret the more specific patterns come first.
func pullSecrets(secrets []corev1.Secret) (all keyring, err error) {
	for i := range secrets {
		s := &secrets[i]
		var config []byte
		switch s.Type {
		case corev1.SecretTypeDockerConfigJson:
			config = s.Data[corev1.DockerConfigJsonKey]
		case corev1.SecretTypeDockercfg:
			config = fmt.Appendf(nil, `{"auths":%s}`, s.Data[corev1.DockerConfigKey])
		default:
			continue
		}
		keys, err := readKeyring(bytes.NewReader(config))
		if err != nil {
			return nil, fmt.Errorf("pull secret %s/%s: %w: %w", s.Namespace, s.Name, err, errdefs.ErrUnauthenticated)
		}
		if len(all)+len(keys) > maxKeys {
			return nil, fmt.Errorf("imagePullSecrets: the Secrets have more than %d credentials together: %w",
				maxKeys, errdefs.ErrResourceExhausted)
		}
		for i := range keys {
			keys[i].own, keys[i].secret = true, s.UID
			keys[i].entry = keys[i].access()
		}
		all = append(all, keys...)
	}
	return all, nil
}

// readKeyring reads the credentials that a Docker config itself contains.
func readKeyring(r io.Reader) (keyring, error) {
	config := configfile.New("")
	if err := config.LoadFromReader(r); err != nil {
		return nil, err
	}
	return keysOf(config), nil
}

func keysOf(config *configfile.ConfigFile) (k keyring) {
	patterns := make([]string, 0, len(config.AuthConfigs))
	for pattern := range config.AuthConfigs {
		patterns = append(patterns, pattern)
	}
	slices.SortFunc(patterns, func(a, b string) int { return strings.Compare(b, a) })
	for _, pattern := range patterns {
		auth := config.AuthConfigs[pattern]
		if auth.Username == "" && auth.IdentityToken == "" && auth.RegistryToken == "" {
			continue // docker login marks in this way that a helper has them
		}
		k = append(k, newKey(pattern, auth))
	}
	return k
}

func newKey(pattern string, auth types.AuthConfig) key {
	if _, rest, ok := strings.Cut(pattern, "://"); ok {
		pattern = rest
	}
	host, repository, _ := strings.Cut(pattern, "/")
	// The version of the protocol is not part of a name.
	for _, version := range []string{"v1", "v2"} {
		if repository == version || strings.HasPrefix(repository, version+"/") {
			repository = strings.TrimPrefix(repository[len(version):], "/")
			break
		}
	}
	k := key{path: repository, credential: credential{AuthConfig: auth}}
	k.host, k.port = splitPort(host)
	return k
}

// splitPort splits the port from a host, if it has one. All hosts of Docker Hub count as one.
func splitPort(address string) (host, port string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = address, ""
	}
	switch host {
	case "registry-1.docker.io", "index.docker.io":
		host = "docker.io"
	}
	return host, port
}

// lookUp returns the credentials for a repository at a host, in the order in which to try them.
func (k keyring) lookUp(address, repository string) (found []credential) {
	host, port := splitPort(address)
	for _, one := range k {
		if one.matches(host, port, repository) {
			found = append(found, one.credential)
		}
	}
	return found
}

// maxHostPattern is how long a pattern for hosts may be, of which none has more than 253 bytes. One of a megabyte would be gone
// through again for each place in the host at which it may match.
const maxHostPattern = 1024

func (k key) matches(host, port, repository string) bool {
	if len(k.host) > maxHostPattern {
		return false
	}
	patterns, parts := strings.Split(k.host, "."), strings.Split(host, ".")
	if k.port != port || len(patterns) != len(parts) || !strings.HasPrefix(repository, k.path) {
		return false
	}
	for i, pattern := range patterns {
		if ok, err := path.Match(pattern, parts[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// id distinguishes credentials without revealing them. Empty if there are none.
func (k keyring) id() string {
	if len(k) == 0 {
		return ""
	}
	hash := sha256.New()
	for _, one := range k {
		_ = json.NewEncoder(hash).Encode([]any{one.host, one.port, one.path, one.AuthConfig})
	}
	return fmt.Sprintf("%x", hash.Sum(nil))
}

// tries has the credentials that one pull may use for each host; it uses one of them at a time.
type tries struct {
	find func(host string) ([]credential, error)

	mu    sync.Mutex
	round int
	found map[string][]credential
	shown *credential // the pod's credential of this round
}

// credentials returns the credentials for a host in this round; empty if there are none. If the user is empty, the
// secret is an identity token.
func (t *tries) credentials(host string) (user, secret string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all, ok := t.found[host]
	if !ok {
		if all, err = t.find(host); err != nil {
			return "", "", fmt.Errorf("credentials for %s: %w", host, err)
		}
		t.found[host] = all
	}
	if len(all) == 0 {
		return "", "", nil
	}
	auth := all[min(t.round, len(all)-1)]
	if auth.own {
		t.shown = &auth
	}
	if auth.RegistryToken != "" && auth.IdentityToken == "" && auth.Username == "" {
		return "", "", fmt.Errorf("credentials for %s: a registrytoken is not supported: %w", host,
			errdefs.ErrNotImplemented)
	}
	if auth.IdentityToken != "" {
		return "", auth.IdentityToken, nil
	}
	return auth.Username, auth.Password, nil
}

// next goes on to other credentials after those of this round were refused. It returns false if there are none.
func (t *tries) next() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.round++
	t.shown = nil
	for _, all := range t.found {
		if t.round < len(all) {
			return true
		}
	}
	return false
}

// given returns the pod's credential that got something in this round; nil if every pod would have been given it.
func (t *tries) given() *credential {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shown
}
