package tokens

import (
	"crypto/subtle"
	"fmt"

	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// secretIssuer is the issuer of tokens that are kept in Secrets. Those of Issue never name it, so that neither can be taken for
// the other, although one key signs both.
const secretIssuer = "kubernetes/serviceaccount"

// invalidSince is the label of a Secret whose token is no longer valid.
const invalidSince = "kubernetes.io/legacy-token-invalid-since"

// secretClaims are laid out as a cluster has them: without an audience, and without an end.
type secretClaims struct {
	Issuer     string    `json:"iss"`
	Subject    string    `json:"sub"`
	Namespace  string    `json:"kubernetes.io/serviceaccount/namespace"`
	Secret     string    `json:"kubernetes.io/serviceaccount/secret.name"`
	Account    string    `json:"kubernetes.io/serviceaccount/service-account.name"`
	AccountUID types.UID `json:"kubernetes.io/serviceaccount/service-account.uid"`
}

// ForSecret makes the token of an account that a Secret is to keep. It is valid as long as the Secret has it and the account is
// there.
func (t *Tokens) ForSecret(namespace, secret string, account Ref) (string, error) {
	token, err := t.sign(secretClaims{
		Issuer: secretIssuer, Subject: serviceaccount.MakeUsername(namespace, account.Name), Namespace: namespace,
		Secret: secret, Account: account.Name, AccountUID: account.UID,
	})
	if err != nil {
		return "", fmt.Errorf("token of serviceaccount %s/%s: %w", namespace, account.Name, err)
	}
	return token, nil
}

// kept returns the ServiceAccount of a token that a Secret keeps.
func (t *Tokens) kept(parsed *jwt.JSONWebToken, token string) (info serviceaccount.ServiceAccountInfo, err error) {
	c := &secretClaims{}
	if err := parsed.Claims(&t.key.PublicKey, c); err != nil {
		return info, fmt.Errorf("service account token: %w", err)
	}
	secret := &corev1.Secret{}
	found, err := t.Read("secrets", c.Namespace, c.Secret, secret)
	switch {
	case err != nil:
		return info, err
	// The token does not name the Secret's UID: another one of that name has another token.
	case !found || secret.Type != corev1.SecretTypeServiceAccountToken,
		subtle.ConstantTimeCompare(secret.Data[corev1.ServiceAccountTokenKey], []byte(token)) != 1:
		return info, fmt.Errorf("the token has ended with the secret %q, which kept it", c.Secret)
	case secret.Labels[invalidSince] != "":
		return info, fmt.Errorf("the label %s of the secret %q says that its token is not valid", invalidSince, c.Secret)
	}
	if err := t.remains("secrets", secret); err != nil {
		return info, err
	}
	account := &Ref{c.Account, c.AccountUID}
	if err := t.lives("serviceaccounts", c.Namespace, account, &corev1.ServiceAccount{}); err != nil {
		return info, err
	}
	return serviceaccount.ServiceAccountInfo{Namespace: c.Namespace, Name: c.Account, UID: string(c.AccountUID)}, nil
}
