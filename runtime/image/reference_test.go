package image

import (
	"strings"
	"testing"

	"github.com/containerd/errdefs"
)

func TestNormalize(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	for _, c := range []struct{ rule, ref, want string }{
		{"a bare name is Docker Hub's latest", "perl", "docker.io/library/perl:latest"},
		{"a tag is kept", "perl:5.34.0", "docker.io/library/perl:5.34.0"},
		{"a user's image is Docker Hub's", "me/perl", "docker.io/me/perl:latest"},
		{"a host with a dot is a registry", "example.com/perl", "example.com/perl:latest"},
		{"a host with a port is a registry", "localhost:5000/perl", "localhost:5000/perl:latest"},
		{"index.docker.io is Docker Hub", "index.docker.io/library/perl", "docker.io/library/perl:latest"},
		{"a digest needs no tag", "perl" + digest, "docker.io/library/perl" + digest},
		{"of a tag and a digest the digest counts", "perl:5.34.0" + digest, "docker.io/library/perl" + digest},
		{"upper case is refused", "Perl", ""},
		{"an empty name is refused", "", ""},
		{"a space is refused", "perl 5", ""},
		{"an image's ID is refused", strings.Repeat("a", 64), ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			got, err := Normalize(c.ref)
			if got != c.want || (err != nil) != (c.want == "") {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
			if err != nil && !errdefs.IsInvalidArgument(err) {
				t.Errorf("%v is %v", err, errdefs.Resolve(err))
			}
		})
	}
}

func FuzzNormalize(f *testing.F) {
	for _, s := range []string{"perl", "a.b:1/c:d", "x@sha256:" + strings.Repeat("0", 64), "[::1]:5000/a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		once, err := Normalize(ref)
		if err != nil {
			return
		}
		if twice, err := Normalize(once); err != nil || twice != once {
			t.Errorf("%q is %q, and that is %q, %v", ref, once, twice, err)
		}
		if digested(once) != strings.Contains(once, "@") {
			t.Errorf("digested(%q) = %t", once, digested(once))
		}
	})
}
