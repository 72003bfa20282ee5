package core

import (
	"crypto/tls"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/kind"
)

// setSecretDefaults sets the secret's type, and moves stringData, which is write-only, into data.
func setSecretDefaults(secret *corev1.Secret) {
	if secret.Type == "" {
		secret.Type = corev1.SecretTypeOpaque
	}
	if len(secret.StringData) > 0 && secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for key, value := range secret.StringData {
		secret.Data[key] = []byte(value)
	}
	secret.StringData = nil
}

// validateSecret checks a secret, new or changed: its keys, its size, and that it holds the keys its type requires.
func validateSecret(secret *corev1.Secret) field.ErrorList {
	errs := validation.ValidateObjectMeta(&secret.ObjectMeta, true, validation.NameIsDNSSubdomain,
		field.NewPath("metadata"))
	data := field.NewPath("data")
	size := 0
	for _, key := range sortedKeys(secret.Data) {
		errs = append(errs, invalid(data.Key(key), key, utilvalidation.IsConfigMapKey(key))...)
		size += len(secret.Data[key])
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(data, "", corev1.MaxSecretSize))
	}
	return append(errs, validateSecretType(secret)...)
}

func validateSecretType(secret *corev1.Secret) field.ErrorList {
	data := field.NewPath("data")
	has := func(key string) bool {
		_, ok := secret.Data[key]
		return ok
	}
	need := func(key string) field.ErrorList {
		if has(key) {
			return nil
		}
		return field.ErrorList{field.Required(data.Key(key), "")}
	}
	credentials := func(key string) field.ErrorList {
		if !has(key) {
			return need(key)
		}
		if err := json.Unmarshal(secret.Data[key], &map[string]any{}); err != nil {
			return field.ErrorList{field.Invalid(data.Key(key), "<secret contents redacted>", err.Error())}
		}
		return nil
	}
	switch secret.Type {
	case corev1.SecretTypeServiceAccountToken:
		return required(field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey),
			secret.Annotations[corev1.ServiceAccountNameKey])
	case corev1.SecretTypeDockercfg:
		return credentials(corev1.DockerConfigKey)
	case corev1.SecretTypeDockerConfigJson:
		return credentials(corev1.DockerConfigJsonKey)
	case corev1.SecretTypeBasicAuth:
		if has(corev1.BasicAuthUsernameKey) || has(corev1.BasicAuthPasswordKey) {
			return nil // either may be missing, not both
		}
		return append(need(corev1.BasicAuthUsernameKey), need(corev1.BasicAuthPasswordKey)...)
	case corev1.SecretTypeSSHAuth:
		return required(data.Key(corev1.SSHAuthPrivateKey), string(secret.Data[corev1.SSHAuthPrivateKey]))
	case corev1.SecretTypeTLS:
		return append(need(corev1.TLSCertKey), need(corev1.TLSPrivateKeyKey)...)
	}
	return nil // every other type is the user's own
}

// validateSecretUpdate checks a changed secret: its type must not change, and nothing of one that is immutable.
func validateSecretUpdate(secret, old *corev1.Secret) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&secret.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, validation.ValidateImmutableField(secret.Type, old.Type, field.NewPath("type"))...)
	errs = append(errs, heldImmutable(old.Immutable, secret.Immutable,
		part{"data", equality.Semantic.DeepEqual(secret.Data, old.Data)})...)
	return append(errs, validateSecret(secret)...)
}

// secretWarnings warns of a certificate that does not belong to its key.
func secretWarnings(secret *corev1.Secret) []string {
	if secret.Type != corev1.SecretTypeTLS {
		return nil
	}
	if _, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// secretFields returns the fields that field selectors of secrets may name, in addition to metadata.name and
// metadata.namespace.
func secretFields() map[string]func(*corev1.Secret) string {
	return map[string]func(*corev1.Secret) string{"type": func(s *corev1.Secret) string { return string(s.Type) }}
}

// secretTable is what kubectl prints of secrets.
func secretTable() kind.Columns[*corev1.Secret] {
	doc := corev1.Secret{}.SwaggerDoc()
	return kind.Columns[*corev1.Secret]{
		kind.NameColumn[*corev1.Secret](),
		{Name: "Type", Description: doc["type"], Cell: func(s *corev1.Secret, _ time.Time) any { return string(s.Type) }},
		{Name: "Data", Description: doc["data"], Cell: func(s *corev1.Secret, _ time.Time) any { return int64(len(s.Data)) }},
		kind.AgeColumn[*corev1.Secret](),
	}
}
