package upkeep

import (
	"bytes"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/tokens"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// TokenSecrets fills in Secrets that are to keep a token of a ServiceAccount, and deletes them when there is no such account.
type TokenSecrets struct {
	loop.Base
	tokens    *tokens.Tokens
	authority []byte
	deleter   Deleter
	// secrets may lack something, by their keys; accounts of namespaces are gone, which Secrets there may name.
	secrets, namespaces *loop.Queue[string]
}

// Deleter deletes objects by the rules of their kind.
type Deleter interface {
	// Delete deletes an object and reports whether it is gone.
	Delete(p *loop.Pass, key string) (bool, error)
}

// NewTokenSecrets makes the controller. authority is the certificate, in PEM, that verifies the API's; empty if there is none.
func NewTokenSecrets(tokens *tokens.Tokens, authority []byte, deleter Deleter) *TokenSecrets {
	return &TokenSecrets{
		tokens: tokens, authority: authority, deleter: deleter,
		secrets: loop.NewQueue[string](), namespaces: loop.NewQueue[string](),
	}
}

// Rebuild looks at all such Secrets, since the authority may have changed since the last start.
func (t *TokenSecrets) Rebuild(s *store.Snapshot, _ time.Time) error {
	t.noteAll(s, objects.Secrets+"/")
	return nil
}

func (t *TokenSecrets) noteAll(s *store.Snapshot, prefix string) {
	s.Range(prefix, "", func(o store.Object) bool {
		t.note(o)
		return true
	})
}

// note looks at a Secret later if it is one of these, of which its type, which is stored as it is, tells without decoding
// the others.
func (t *TokenSecrets) note(o store.Object) {
	if bytes.Contains(o.Value, []byte(corev1.SecretTypeServiceAccountToken)) {
		t.secrets.Add(o.Key)
	}
}

// Fold implements loop.Controller.
func (t *TokenSecrets) Fold(_ *loop.Pass, c loop.Change) error {
	if c.Resource == objects.Secrets && !c.Deleted {
		t.note(c.Object)
	}
	return nil
}

// Gone implements loop.GoneFollower.
func (t *TokenSecrets) Gone(_ *loop.Pass, o store.Object) {
	if objects.ResourceOf(o.Key) == objects.ServiceAccounts {
		namespace, _ := objects.NameOf(o.Key)
		t.namespaces.Add(namespace)
	}
}

// Dirty implements loop.Controller.
func (t *TokenSecrets) Dirty() bool { return t.secrets.Len()+t.namespaces.Len() > 0 }

// Settle implements loop.Controller.
func (t *TokenSecrets) Settle(p *loop.Pass) (bool, error) {
	if namespace, ok := t.namespaces.Take(); ok {
		t.noteAll(p.Snapshot(), store.Key(objects.Secrets, namespace, ""))
		return true, nil
	}
	return t.secrets.Settle(func(key string) error { return t.settle(p, key) })
}

func (t *TokenSecrets) settle(p *loop.Pass, key string) error {
	secret := &corev1.Secret{}
	if !p.Works(key) {
		return nil
	}
	ok, err := objects.Read(p, key, secret)
	if err != nil || !ok || secret.Type != corev1.SecretTypeServiceAccountToken {
		return err
	}
	account := tokens.Ref{Name: secret.Annotations[corev1.ServiceAccountNameKey]}
	if o, ok := p.Get(store.Key(objects.ServiceAccounts, secret.Namespace, account.Name)); ok {
		account.UID = types.UID(o.UID)
	}
	switch decideTokenSecret(secret, account.UID, t.authority) {
	case tokenSecretOrphaned:
		_, err := t.deleter.Delete(p, key)
		return err
	case tokenSecretComplete:
		return nil
	}
	token := string(secret.Data[corev1.ServiceAccountTokenKey])
	if token == "" {
		if token, err = t.tokens.ForSecret(secret.Namespace, secret.Name, account); err != nil {
			return err
		}
	}
	fillTokenSecret(secret, account, token, t.authority)
	return p.Put(key, secret)
}

// What there is to do about a Secret that is to keep a token.
type tokenSecretState int

const (
	tokenSecretComplete tokenSecretState = iota
	tokenSecretLacking
	tokenSecretOrphaned // without an account
)

// decideTokenSecret returns the state of a Secret. account is the UID of the account that it names, empty if there is none.
func decideTokenSecret(secret *corev1.Secret, account types.UID, authority []byte) tokenSecretState {
	wanted := types.UID(secret.Annotations[corev1.ServiceAccountUIDKey])
	switch {
	case account == "" || wanted != "" && wanted != account:
		return tokenSecretOrphaned
	case secret.DeletionTimestamp != nil || ptr.Deref(secret.Immutable, false):
		return tokenSecretComplete // nothing may be written to it
	case len(secret.Data[corev1.ServiceAccountTokenKey]) == 0,
		len(secret.Data[corev1.ServiceAccountNamespaceKey]) == 0,
		len(authority) > 0 && !bytes.Equal(secret.Data[corev1.ServiceAccountRootCAKey], authority):
		return tokenSecretLacking
	}
	return tokenSecretComplete
}

// fillTokenSecret completes a Secret. A namespace that somebody has written stays.
func fillTokenSecret(secret *corev1.Secret, account tokens.Ref, token string, authority []byte) {
	secret.Annotations[corev1.ServiceAccountUIDKey] = string(account.UID)
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[corev1.ServiceAccountTokenKey] = []byte(token)
	if len(authority) > 0 {
		secret.Data[corev1.ServiceAccountRootCAKey] = authority
	}
	if len(secret.Data[corev1.ServiceAccountNamespaceKey]) == 0 {
		secret.Data[corev1.ServiceAccountNamespaceKey] = []byte(secret.Namespace)
	}
}
