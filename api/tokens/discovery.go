package tokens

import (
	"encoding/json"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// The paths at which others find what they verify tokens with, by themselves (OpenID Connect Discovery).
const (
	ConfigurationPath = "/.well-known/openid-configuration"
	KeysPath          = "/openid/v1/jwks"
)

// configuration is the part of an issuer's metadata that verifying its tokens needs.
type configuration struct {
	Issuer     string   `json:"issuer"`
	Keys       string   `json:"jwks_uri"`
	Responses  []string `json:"response_types_supported"`
	Subjects   []string `json:"subject_types_supported"`
	Algorithms []string `json:"id_token_signing_alg_values_supported"`
}

// Discovery returns the documents of the two paths, as JSON. Pods reach the keys at the address that the first one names.
func (t *Tokens) Discovery() (about, keys []byte, err error) {
	about, err = json.Marshal(configuration{
		Issuer: Audience, Keys: Audience + KeysPath,
		Responses: []string{"id_token"}, Subjects: []string{"public"}, Algorithms: []string{string(jose.ES256)},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("describe the issuer of tokens: %w", err)
	}
	keys, err = json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: &t.key.PublicKey, KeyID: t.keyID, Algorithm: string(jose.ES256), Use: "sig"},
	}})
	if err != nil {
		return nil, nil, fmt.Errorf("encode the key of tokens: %w", err)
	}
	return about, keys, nil
}
