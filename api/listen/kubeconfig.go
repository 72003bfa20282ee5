package listen

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/roles"
	"github.com/jobd/jobd/internal/files"
)

// WriteKubeconfig writes what an administrator's kubectl needs to reach the address, for the owner alone, unless that is there already:
// others may have filled the disk.
func (a *Authority) WriteKubeconfig(path string, address net.Addr) error {
	data, err := a.Kubeconfig(address, holder{Role: roles.Role{Name: core.RoleAdmin}})
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, data) {
		return os.Chmod(path, 0o600)
	}
	return files.ReplaceDurably(path, data, 0o600)
}

// holder is whom a kubeconfig is for: a user of some groups, whose rights come from bindings, or whoever has a role.
type holder struct {
	user   string
	groups []string
	Role   roles.Role // if there is no user; its namespace is where the commands of a user begin
	// NamespaceUID is that of the only namespace of its name in which the role is to count; empty if there was none yet.
	NamespaceUID string
}

// NewHolder checks whom a person has asked a kubeconfig for. role is empty if nothing was said about it.
func NewHolder(name string, groups []string, role, namespace string) (h holder, err error) {
	if name == "" {
		if len(groups) > 0 {
			return h, errors.New("--group says what groups a user is in: it needs --user")
		}
		h.Role, err = roles.New(cmp.Or(role, core.RoleAdmin), namespace)
		return h, err
	}
	if role != "" {
		return h, errors.New("--user and --role exclude each other: the rights of a user come from bindings")
	}
	if h.Role, err = roles.New(core.RoleRead, namespace); err != nil {
		return h, err
	}
	for _, said := range append([]string{name}, groups...) {
		switch {
		case said == "":
			return h, errors.New("a group needs a name")
		case strings.HasPrefix(said, "system:") || strings.HasPrefix(said, "jobd:"):
			return h, fmt.Errorf("%q is reserved for jobd: names of users and groups cannot begin with system: or jobd:", said)
		case strings.ContainsFunc(said, unicode.IsControl) || !utf8.ValidString(said) || len(said) > 256:
			return h, fmt.Errorf("%q cannot be the name of a user or group: it is longer than 256 bytes, or has characters "+
				"that cannot be printed", said)
		}
	}
	h.user, h.groups = name, groups
	return h, nil
}

// Kubeconfig returns a kubeconfig with a certificate for its holder; an administrator's holds a token.
func (a *Authority) Kubeconfig(address net.Addr, to holder) ([]byte, error) {
	const name = "jobd"
	host, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return nil, err
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{
		Server: "https://" + net.JoinHostPort(host, port), CertificateAuthorityData: a.pem,
	}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: a.token}
	granted := to.Role
	if to.user != "" || granted != (roles.Role{Name: core.RoleAdmin}) {
		user, groups := to.user, to.groups
		if user == "" {
			groups = []string{granted.GroupOf(to.NamespaceUID)}
			user = "jobd:" + strings.TrimPrefix(granted.Group(), roles.GroupPrefix)
		}
		cert, key, err := a.IssueClient(user, groups, clientLife)
		if err != nil {
			return nil, err
		}
		c.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: granted.Namespace}
	c.CurrentContext = name
	return clientcmd.Write(*c)
}
