package image

import (
	_ "crypto/sha512" // for digests of that kind
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
)

// Normalize returns the full name that a reference in a pod stands for: perl is docker.io/library/perl:latest. If there
// are both a tag and a digest, the digest counts and the tag is dropped.
func Normalize(ref string) (string, error) {
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return "", &classed{fmt.Sprintf("image name %q: %v", ref, err), errdefs.ErrInvalidArgument, err}
	}
	return named.String(), nil
}

// digested reports whether a full name has a digest, and so stands for one image forever.
func digested(name string) bool {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return false
	}
	_, ok := named.(reference.Canonical)
	return ok
}
