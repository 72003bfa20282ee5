// Package tokens issues and verifies the tokens of ServiceAccounts: JWTs, signed with a key of this daemon, that are
// valid until they expire and as long as the ServiceAccount, and the object they are bound to, are there. Those that
// Secrets keep do not expire. The package reads the store and writes nothing.
package tokens

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// Audience is the audience of tokens that are requested without one: this API. It is also the issuer of all tokens except
// those that Secrets keep.
const Audience = "https://kubernetes.default.svc.cluster.local"

// Tokens issues and verifies tokens. It is made by New.
type Tokens struct {
	store  *store.Store
	key    *ecdsa.PrivateKey
	keyID  string
	signer jose.Signer
	now    func() time.Time
}

// Ref names an object that a token is about.
type Ref struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid,omitempty"`
}

// Request holds what a token will contain.
type Request struct {
	Namespace string
	Account   Ref
	// Audiences lists the audiences of the token; empty stands for the API.
	Audiences []string
	Life      time.Duration
	// Pod, Secret and Node name the objects that the token is bound to: it is no longer valid when they are gone. The
	// token of a pod also names its node.
	Pod, Secret, Node *Ref
}

// claims are laid out as a cluster has them.
type claims struct {
	jwt.Claims
	About about `json:"kubernetes.io"`
}

type about struct {
	Namespace string `json:"namespace"`
	Account   Ref    `json:"serviceaccount"`
	Pod       *Ref   `json:"pod,omitempty"`
	Secret    *Ref   `json:"secret,omitempty"`
	Node      *Ref   `json:"node,omitempty"`
}

// New takes the key that tokens are signed with, of the curve P-256. It has to be kept: without it all tokens become
// invalid.
func New(key *ecdsa.PrivateKey, s *store.Store) (*Tokens, error) {
	public := jose.JSONWebKey{Key: &key.PublicKey}
	print, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("tokens of service accounts: %w", err)
	}
	id := base64.RawURLEncoding.EncodeToString(print)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: id}},
		nil)
	if err != nil {
		return nil, fmt.Errorf("tokens of service accounts: %w", err)
	}
	return &Tokens{store: s, key: key, keyID: id, signer: signer, now: time.Now}, nil
}

// Issue makes a token. The caller makes sure that the objects it names exist.
func (t *Tokens) Issue(r Request) (token string, expires time.Time, err error) {
	now := t.now()
	expires = now.Add(r.Life).Truncate(time.Second)
	audiences := r.Audiences
	if len(audiences) == 0 {
		audiences = []string{Audience}
	}
	token, err = t.sign(claims{
		Claims: jwt.Claims{
			Issuer:    Audience,
			Subject:   serviceaccount.MakeUsername(r.Namespace, r.Account.Name),
			Audience:  audiences,
			Expiry:    jwt.NewNumericDate(expires),
			NotBefore: jwt.NewNumericDate(now),
			IssuedAt:  jwt.NewNumericDate(now),
			ID:        string(uuid.NewUUID()),
		},
		About: about{Namespace: r.Namespace, Account: r.Account, Pod: r.Pod, Secret: r.Secret, Node: r.Node},
	})
	if err != nil {
		return "", expires, fmt.Errorf("token of serviceaccount %s/%s: %w", r.Namespace, r.Account.Name, err)
	}
	return token, expires, nil
}

// sign makes a token of claims. jwt.Signed would decode them into a map and encode them again, which costs more than the
// signature.
func (t *Tokens) sign(c any) (string, error) {
	payload, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	signed, err := t.signer.Sign(payload)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

// AuthenticateToken returns the ServiceAccount of a token, and for which of the audiences that ctx asks about it is; by
// default that is this API. Tokens of other issuers are left to other authenticators.
func (t *Tokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if strings.Count(token, ".") != 2 {
		return nil, false, nil
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return nil, false, nil
	}
	said := &jwt.Claims{}
	if err := parsed.UnsafeClaimsWithoutVerification(said); err != nil {
		return nil, false, nil
	}
	var info serviceaccount.ServiceAccountInfo
	var audiences authenticator.Audiences
	switch said.Issuer {
	case Audience:
		info, audiences, err = t.issued(parsed)
	case secretIssuer:
		info, err = t.kept(parsed, token)
		audiences = authenticator.Audiences{Audience}
	default:
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	wanted, ok := authenticator.AudiencesFrom(ctx)
	if !ok {
		wanted = authenticator.Audiences{Audience}
	}
	common := audiences.Intersect(wanted)
	if len(common) == 0 {
		return nil, false, fmt.Errorf("the token is for the audiences %q, none of which is of %q", audiences, wanted)
	}
	return &authenticator.Response{Audiences: common, User: info.UserInfo()}, true, nil
}

// issued returns the ServiceAccount of a token that Issue has made, and its audiences.
func (t *Tokens) issued(
	token *jwt.JSONWebToken,
) (info serviceaccount.ServiceAccountInfo, audiences authenticator.Audiences, err error) {
	c, err := t.verify(token)
	if err != nil {
		return info, nil, err
	}
	if err := t.good(c); err != nil {
		return info, nil, err
	}
	info = serviceaccount.ServiceAccountInfo{
		Namespace: c.About.Namespace, Name: c.About.Account.Name, UID: string(c.About.Account.UID), CredentialID: "JTI=" + c.ID,
	}
	if pod := c.About.Pod; pod != nil {
		info.PodName, info.PodUID = pod.Name, string(pod.UID)
	}
	if node := c.About.Node; node != nil {
		info.NodeName, info.NodeUID = node.Name, string(node.UID)
	}
	return info, authenticator.Audiences(c.Audience), nil
}

// verify returns the claims of a token if its signature is ours and it is valid now.
func (t *Tokens) verify(token *jwt.JSONWebToken) (*claims, error) {
	c := &claims{}
	if err := token.Claims(&t.key.PublicKey, c); err != nil {
		return nil, fmt.Errorf("service account token: %w", err)
	}
	switch err := c.Validate(jwt.Expected{Issuer: Audience, Time: t.now()}); {
	case errors.Is(err, jwt.ErrExpired):
		return nil, errors.New("service account token has expired")
	case errors.Is(err, jwt.ErrNotValidYet):
		return nil, errors.New("service account token is not valid yet")
	case err != nil:
		return nil, fmt.Errorf("service account token: %w", err)
	}
	return c, nil
}

// good fails if the account, or an object that the token is bound to, is gone or has been replaced by another one of
// that name.
func (t *Tokens) good(c *claims) error {
	namespace, bound := c.About.Namespace, c.About
	if err := t.lives("serviceaccounts", namespace, &bound.Account, &corev1.ServiceAccount{}); err != nil {
		return err
	}
	switch {
	case bound.Pod != nil:
		return t.lives("pods", namespace, bound.Pod, &corev1.Pod{})
	case bound.Secret != nil:
		return t.lives("secrets", namespace, bound.Secret, &corev1.Secret{})
	case bound.Node != nil:
		return t.lives("nodes", "", bound.Node, &corev1.Node{})
	}
	return nil
}

// Object is an object of the API.
type Object interface {
	runtime.Object
	metav1.Object
}

// Read reads an object that tokens name from the store.
func (t *Tokens) Read(resource, namespace, name string, into Object) (found bool, err error) {
	err = t.store.View(func(s *store.Snapshot) error {
		o, ok := s.Get(store.Key(resource, namespace, name))
		if found = ok; !ok {
			return nil
		}
		return scheme.Decode(o.Value, into)
	})
	if err != nil {
		return found, fmt.Errorf("%s %s/%s: %w", resource, namespace, name, err)
	}
	return found, nil
}

// find returns what a token says about an object, nil if there is none of that name. The object is not decoded.
func (t *Tokens) find(resource, namespace, name string) (ref *Ref, err error) {
	err = t.store.View(func(s *store.Snapshot) error {
		if o, ok := s.Get(store.Key(resource, namespace, name)); ok {
			ref = &Ref{name, types.UID(o.UID)}
		}
		return nil
	})
	return ref, err
}

func (t *Tokens) lives(resource, namespace string, ref *Ref, obj Object) error {
	found, err := t.Read(resource, namespace, ref.Name, obj)
	if err != nil {
		return err
	}
	if !found || obj.GetUID() != ref.UID {
		return fmt.Errorf("the token has ended with %s %q, which it is bound to", strings.TrimSuffix(resource, "s"),
			ref.Name)
	}
	return t.remains(resource, obj)
}

// remains fails if an object is deleted, though it may still be there.
func (t *Tokens) remains(resource string, obj Object) error {
	// A pod that shuts down gracefully may use its token during its grace period, and a moment longer.
	if gone := obj.GetDeletionTimestamp(); gone != nil && gone.Add(jwt.DefaultLeeway).Before(t.now()) {
		return fmt.Errorf("%s %q is deleted, and the token bound to it with it", strings.TrimSuffix(resource, "s"),
			obj.GetName())
	}
	return nil
}

// maxAge is the age at which a token of a pod is renewed, whatever its life.
const maxAge = 24 * time.Hour

// ForPod returns a token of a pod for an audience, empty for the API: the current one until four fifths of its life are
// over, then a new one (ServiceAccountTokenProjection).
func (t *Tokens) ForPod(pod *corev1.Pod, audience string, life time.Duration, current string) (string, error) {
	account, err := t.find("serviceaccounts", pod.Namespace, pod.Spec.ServiceAccountName)
	if err != nil {
		return "", err
	} else if account == nil {
		return "", fmt.Errorf("failed to fetch token: serviceaccounts %q not found", pod.Spec.ServiceAccountName)
	}
	if audience == "" {
		audience = Audience
	}
	r := Request{
		Namespace: pod.Namespace, Account: *account, Audiences: []string{audience}, Life: life,
		Pod: &Ref{pod.Name, pod.UID},
	}
	if r.Node, err = t.NodeOf(pod); err != nil {
		return "", err
	}
	if t.stillFresh(current, r) {
		return current, nil
	}
	token, _, err := t.Issue(r)
	return token, err
}

// NodeOf returns the node that a pod is bound to, nil if there is none yet.
func (t *Tokens) NodeOf(pod *corev1.Pod) (*Ref, error) {
	if pod.Spec.NodeName == "" {
		return nil, nil
	}
	node, err := t.find("nodes", "", pod.Spec.NodeName)
	if node == nil && err == nil {
		node = &Ref{Name: pod.Spec.NodeName}
	}
	return node, err
}

func (t *Tokens) stillFresh(token string, r Request) bool {
	if token == "" {
		return false
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return false
	}
	c, err := t.verify(parsed)
	if err != nil || c.IssuedAt == nil {
		return false
	}
	age := t.now().Sub(c.IssuedAt.Time())
	return slices.Equal(c.Audience, r.Audiences) && c.About.Account == r.Account && c.About.Pod != nil &&
		*c.About.Pod == *r.Pod &&
		age >= -jwt.DefaultLeeway && age < min(r.Life/5*4, maxAge)
}

// Patience returns how long a token of that life is still valid after it should have been renewed: those that renew
// tokens check at least that often.
func Patience(life time.Duration) time.Duration { return min(life, maxAge) / 10 }
