package image

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/testdata/registry"
)

func basic(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

func dockerConfigSecret(config string) corev1.Secret {
	return corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(config)}}
}

func TestKeyring(t *testing.T) {
	for _, c := range []struct {
		rule, patterns   string // with the user's name for each
		host, repository string
		want             string
	}{
		{"the registry itself", "a.io=a", "a.io", "x", "a"},
		{"another registry", "a.io=a", "b.io", "x", ""},
		{"as a URL", "https://a.io=a", "a.io", "x", "a"},
		{"as a URL with the protocol's version", "https://a.io/v2/=a", "a.io", "x", "a"},
		{"Docker Hub by its old name", "https://index.docker.io/v1/=a", "registry-1.docker.io", "library/x", "a"},
		{"Docker Hub by its name", "docker.io=a", "registry-1.docker.io", "library/x", "a"},
		{"the port counts", "a.io:5000=a", "a.io:5000", "x", "a"},
		{"another port", "a.io:5000=a", "a.io", "x", ""},
		{"a wildcard is one part of the host", "*.a.io=a", "b.a.io", "x", "a"},
		{"and no more than one", "*.a.io=a", "c.b.a.io", "x", ""},
		{"and no less", "*.a.io=a", "a.io", "x", ""},
		{"a wildcard within a part", "eu-*.a.io=a", "eu-west.a.io", "x", "a"},
		{"below the path", "a.io/team=a", "a.io", "team/x", "a"},
		{"beside the path", "a.io/team=a", "a.io", "other/x", ""},
		{"the more exact ones first", "a.io=all a.io/team=team a.io/team/x=x", "a.io", "team/x", "x team all"},
		{"a pattern that is longer than any host", strings.Repeat("*", 2000) + ".io=a", "a.io", "x", ""},
		{"a pattern that is none", "[=a", "a.io", "x", ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var auths []string
			for one := range strings.FieldsSeq(c.patterns) {
				pattern, user, _ := strings.Cut(one, "=")
				auths = append(auths, fmt.Sprintf("%q:{%q:%q}", pattern, "auth", basic(user, "p")))
			}
			config := "{" + strings.Join(auths, ",") + "}"
			for _, s := range []corev1.Secret{
				dockerConfigSecret(`{"auths":` + config + `}`),
				{Type: corev1.SecretTypeDockercfg, Data: map[string][]byte{corev1.DockerConfigKey: []byte(config)}},
			} {
				keys, err := pullSecrets([]corev1.Secret{s, {Type: corev1.SecretTypeOpaque, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte("no")}}})
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, auth := range keys.lookUp(c.host, c.repository) {
					got = append(got, auth.Username)
				}
				if strings.Join(got, " ") != c.want {
					t.Errorf("%s: got %q, want %q", s.Type, got, c.want)
				}
			}
		})
	}
}

func TestPullWithSecrets(t *testing.T) {
	r := registry.Start(t, registry.Options{User: "me", Password: "S3cr3t"})
	name, _ := r.Push(t, small(t, "private"), "team/private:1")
	right, wrong := basic("me", "S3cr3t"), basic("me", "Gu3ss")
	auths := func(list ...string) corev1.Secret {
		var entries []string
		for i := 0; i < len(list); i += 2 {
			entries = append(entries, fmt.Sprintf(`%q:{"auth":%q}`, list[i], list[i+1]))
		}
		return dockerConfigSecret(`{"auths":{` + strings.Join(entries, ",") + `}}`)
	}
	broken := dockerConfigSecret(`{"auths":{"a":{"auth":"` + basic("S3cr3t", "")[:5] + `"}}}`)
	broken.Namespace, broken.Name = "default", "broken"
	port := r.Host[strings.LastIndex(r.Host, ":"):]
	for _, c := range []struct {
		rule    string
		secrets []corev1.Secret
		says    string // empty: it is pulled
	}{
		{"the right one", []corev1.Secret{auths(r.Host, right)}, ""},
		{"for the repositories of a team", []corev1.Secret{auths(r.Host+"/team", right)}, ""},
		{"with a wildcard", []corev1.Secret{auths("127.*.0.1"+port, right)}, ""},
		{"a wrong one and then the right one", []corev1.Secret{auths(r.Host, wrong), auths(r.Host, right)}, ""},
		{"a wrong one that is more exact than the right one", []corev1.Secret{auths(r.Host, right, r.Host+"/team", wrong)}, ""},
		{"a wrong one", []corev1.Secret{auths(r.Host, wrong)}, "401"},
		{"one of another team", []corev1.Secret{auths(r.Host+"/other", right)}, "no basic auth credentials"},
		{"none", nil, "no basic auth credentials"},
		{"one that is no Docker config", []corev1.Secret{broken}, "pull secret default/broken"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			i := newImages(t, Options{})
			var lines []string
			_, err := i.Ensure(t.Context(), name, corev1.PullIfNotPresent, runtime.NewPullSecrets(c.secrets), func(line string) { lines = append(lines, line) })
			if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || !errdefs.IsUnauthorized(err)) {
				t.Errorf("got %v (%v), want %q", err, errdefs.Resolve(err), c.says)
			}
			said := fmt.Sprint(lines, err)
			for _, secret := range []string{"S3cr3t", "Gu3ss", right, wrong} {
				if strings.Contains(said, secret) {
					t.Errorf("a secret is told: %s", said)
				}
			}
		})
	}
}

func TestCredentialsOfAPodAreBounded(t *testing.T) {
	secret := func(n int) corev1.Secret {
		var auths []string
		for i := range n {
			auths = append(auths, fmt.Sprintf(`"r%d.io":{"auth":%q}`, i, basic("u", "p")))
		}
		return dockerConfigSecret(`{"auths":{` + strings.Join(auths, ",") + `}}`)
	}
	for _, c := range []struct {
		secrets []corev1.Secret
		refused bool
	}{
		{[]corev1.Secret{secret(maxKeys)}, false},
		{[]corev1.Secret{secret(maxKeys + 1)}, true},
		{[]corev1.Secret{secret(maxKeys), secret(1)}, true},
	} {
		_, err := keyringOf(runtime.NewPullSecrets(c.secrets))
		if got := errdefs.IsResourceExhausted(err) && strings.HasPrefix(err.Error(), "imagePullSecrets: "); got != c.refused || !got && err != nil {
			t.Errorf("got %v", err)
		}
	}
}
