package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/jobd/jobd/api/runas"
	"github.com/jobd/jobd/cmd/internal/overssh"
	"github.com/jobd/jobd/internal/layout"
)

// takeUsersSocket goes to the socket that is open to all users of the machine, where that of administrators is there and not open to
// whoever runs this.
func (t *target) takeUsersSocket() {
	if overssh.Is(t.socket) { // which of them may be opened is known there alone, and may be the other one
		t.users = true
		return
	}
	// A socket cannot be opened so: the error says why.
	if f, err := os.OpenFile(t.socket, os.O_RDWR, 0); err == nil {
		_ = f.Close()
	} else if errors.Is(err, fs.ErrPermission) && isOpenToAll(layout.UsersSocket(t.socket)) {
		t.socket = layout.UsersSocket(t.socket)
	}
	t.users = isOpenToAll(t.socket)
}

func isOpenToAll(socket string) bool {
	info, err := os.Stat(socket)
	return err == nil && info.Mode().Type() == fs.ModeSocket && info.Mode().Perm()&0o006 == 0o006
}

// ownNamespace makes the commands work in the namespace of whoever runs this, unless they name another, where jobd gives its users one.
// It is asked for when a command is about to run. If it does not answer, the command is told why.
func (t *target) ownNamespace(root *cobra.Command, flags *genericclioptions.ConfigFlags, dial dialFunc) {
	before := root.PersistentPreRunE
	root.PersistentPreRunE = func(c *cobra.Command, args []string) error {
		if overssh.Is(t.socket) && (t.namespace != "" || slices.Contains(askNothing, t.verb)) {
			return before(c, args)
		}
		if namespace := namespaceOf(c.Context(), dial); namespace != "" {
			if err := standsIn(flags, namespace); err != nil {
				return err
			}
			*flags.Context, t.own = "", namespace // not of another kubeconfig
		} else {
			t.stranger = true
		}
		return before(c, args)
	}
}

// askNothing are commands that ask jobd for nothing. They start no ssh, which may ask for a password.
var askNothing = []string{"", "completion", "config", "context", "help", "kuberc", "man", "options", "pass", "plugin", "version"}

// askingTime is how long the answer may take to which namespace is one's own.
const askingTime = 10 * time.Second

// maxReview is how much is read of that answer, which names the groups of a user. Every command asks for it, of whatever machine.
const maxReview = 8 << 20

// namespaceOf asks a jobd which namespace it gives to whoever asks; empty if it does not say. A connection that breaks off before the
// answer, as one through a busy ssh may, is no answer: it is asked again.
func namespaceOf(ctx context.Context, dial dialFunc) string {
	for range 2 {
		c, err := dial(ctx) // as long as it takes: ssh may ask for a password
		if err != nil {
			return ""
		}
		if namespace, answered := askNamespace(ctx, c); answered {
			return namespace
		}
	}
	return ""
}

func askNamespace(ctx context.Context, c net.Conn) (namespace string, answered bool) {
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, askingTime)
	defer cancel()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return c, nil },
	}}
	me := authenticationv1.SelfSubjectReview{TypeMeta: metav1.TypeMeta{
		APIVersion: authenticationv1.SchemeGroupVersion.String(), Kind: "SelfSubjectReview",
	}}
	body, err := json.Marshal(me)
	if err != nil {
		return "", true
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, host+"/apis/"+me.APIVersion+"/selfsubjectreviews", bytes.NewReader(body))
	if err != nil {
		return "", true
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(r)
	if err != nil {
		return "", false
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusCreated || json.NewDecoder(io.LimitReader(answer.Body, maxReview)).Decode(&me) != nil {
		return "", true
	}
	for _, namespace := range me.Status.UserInfo.Extra[runas.NamespaceExtra] {
		return namespace, true
	}
	return "", true
}

// kubeconfigOf is a kubeconfig by which a namespace is the one that is meant, as by the flag it is the one that is insisted on.
func kubeconfigOf(namespace string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "jobd",
"clusters": [{"name": "jobd", "cluster": {"server": %q}}], "contexts": [{"name": "jobd", "context": {"cluster": "jobd", "namespace": %q}}]}
`, host, namespace)
}
