package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unauthorized says whether a message is what is left of a server's answer that it does not know who asks.
func unauthorized(message string) bool {
	return strings.Contains(message, "You must be logged in to the server") || strings.HasSuffix(strings.TrimSpace(message), "Unauthorized")
}

// claims are those of a token of a ServiceAccount that say what may be wrong with it. Nothing relies on them: they are the
// user's own, and the server has refused them.
type claims struct {
	Expires    int64 `json:"exp"`
	Kubernetes struct {
		Namespace      string `json:"namespace"`
		ServiceAccount struct {
			Name string `json:"name"`
		} `json:"serviceaccount"`
	} `json:"kubernetes.io"`
}

// readClaims returns the claims of a token; false if it is none of a ServiceAccount's.
func readClaims(token string) (c claims, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c, false
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(text, &c) != nil {
		return claims{}, false
	}
	return c, c.Kubernetes.Namespace != "" && c.Kubernetes.ServiceAccount.Name != ""
}

// whyUnauthorized says what may be wrong with the credentials that a server has refused, by the header that they were sent in,
// and where to get others.
func whyUnauthorized(authorization string, now time.Time) string {
	const others = "on the machine of jobd, \"jobctl create token ACCOUNT\" makes a token, and \"jobctl kubeconfig\" a file for --kubeconfig"
	token, bearer := strings.CutPrefix(authorization, "Bearer ")
	if !bearer {
		return "No token was sent, and no certificate of a client that the server trusts: " + others + "."
	}
	c, ok := readClaims(token)
	if !ok {
		return "The token is not one of a ServiceAccount: " + others + "."
	}
	account := c.Kubernetes.ServiceAccount
	again := "make another one on the machine of jobd, with: jobctl create token " + account.Name
	if c.Kubernetes.Namespace != metav1.NamespaceDefault {
		again += " -n " + c.Kubernetes.Namespace
	}
	if end := time.Unix(c.Expires, 0); c.Expires != 0 && !now.Before(end) {
		return fmt.Sprintf("The token of the ServiceAccount %s has expired, at %s: %s", account.Name, end.UTC().Format(time.RFC3339), again)
	}
	return fmt.Sprintf("The token of the ServiceAccount %s is not accepted: it is another server's, or what it belongs to was deleted since "+
		"(the ServiceAccount, a pod, a Secret): %s", account.Name, again)
}

// forbiddenTo is what jobd says to a user of the machine who may not do something.
var forbiddenTo = regexp.MustCompile(`\bforbidden: User "unix:([^"]+)" cannot \w+ (path "/jobd/v1/)?(?:.* in the namespace "([^"]+)")?`)

// whoMay says what helps a user of the machine who may not do something; empty if that is not what a message says, or nothing helps. own is
// their namespace.
func whoMay(message string, stranger bool, own string) string {
	m := forbiddenTo.FindStringSubmatch(message)
	switch {
	case m == nil:
		return ""
	case stranger:
		return fmt.Sprintf("%s is none of the users of this jobd. If they are a group, as with jobd's package the group jobd: sudo usermod -aG jobd %[1]s", m[1])
	case m[2] != "":
		return "Only administrators of this jobd, such as root, may do that."
	case own != "" && own != m[3]:
		return fmt.Sprintf("The namespace of %s is %s, in which commands work without -n and -A.", m[1], own)
	}
	return ""
}

// isStranger reports whether whoever asks is none of jobd's users.
func (r *refusedRequest) isStranger() bool { return r.stranger != nil && r.stranger() }

// ownNamespace returns the namespace that jobd has given to whoever asks; empty if none.
func (r *refusedRequest) ownNamespace() string {
	if r.own == nil {
		return ""
	}
	return r.own()
}

// explain completes the error of a request with why the server did not know who asked, or who may do it, if that is what it says.
func (r *refusedRequest) explain(err error) error {
	if sent, refused := r.credentials(); err != nil && refused && unauthorized(err.Error()) {
		return fmt.Errorf("%w\n%s", err, whyUnauthorized(sent, time.Now()))
	}
	if err != nil {
		if help := whoMay(err.Error(), r.isStranger(), r.ownNamespace()); help != "" {
			return fmt.Errorf("%w\n%s", err, help)
		}
	}
	return err
}
