package image

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/jobd/jobd/runtime"
)

const (
	// labelAccess is on an image that a registry has given only for some pod's credentials: it lists the credentials
	// for which it was given. All other images are for every pod: those that were imported, and those that a registry
	// gave to anybody or for credentials of this machine (KEP-2535, imagePullCredentialsVerificationPolicy:
	// NeverVerifyPreloadedImages).
	labelAccess = "jobd.dev/pulled-with"
	// accessMost bounds that list, since a label has at most 4096 bytes. For credentials that have fallen out of the
	// list the registry is asked once more.
	accessMost = 50
)

// access are the credentials with which an image may be used, each as HASH/UID: a hash of the credential, and the UID
// of the Secret that contained it, which still gives access when its content has changed. Nil means that everybody may
// use the image.
type access []string

func readAccess(labels map[string]string) access {
	if labels[labelAccess] == "" {
		return nil
	}
	return strings.Split(labels[labelAccess], ",")
}

// access returns the entry of a credential in that list.
func (c credential) access() string {
	if c.entry != "" {
		return c.entry
	}
	hash := sha256.New()
	_ = json.NewEncoder(hash).Encode(c.AuthConfig)
	return fmt.Sprintf("%x/%s", hash.Sum(nil)[:16], c.secret)
}

// allows reports whether one of the credentials gives access.
func (a access) allows(own keyring) bool {
	if a == nil {
		return true
	}
	hashes, uids := sets.New[string](), sets.New[string]()
	for _, known := range a {
		hash, uid, _ := strings.Cut(known, "/")
		hashes.Insert(hash)
		uids.Insert(uid)
	}
	return slices.ContainsFunc(own, func(k key) bool {
		hash, uid, _ := strings.Cut(k.credential.access(), "/")
		return hashes.Has(hash) || uid != "" && uids.Has(uid)
	})
}

// plus adds a credential.
func (a access) plus(c credential) access {
	if one := c.access(); !slices.Contains(a, one) {
		a = append(slices.Clone(a), one)
	}
	return a[max(0, len(a)-accessMost):]
}

// mayUse reports whether a pod with these pull secrets may use an image that is present, without asking the registry.
func (i *Images) mayUse(ctx context.Context, name string, secrets *runtime.PullSecrets) bool {
	i.mu.Lock()
	a, ok := i.access[name]
	generation := i.generation
	i.mu.Unlock()
	if !ok {
		stored, err := i.client.ImageService().Get(i.inNamespace(ctx), name)
		if err != nil {
			return false // the pull says what is wrong
		}
		a = readAccess(stored.Labels)
		i.mu.Lock()
		if i.generation == generation {
			i.access[name] = a
		}
		i.mu.Unlock()
	}
	if a == nil {
		return true
	}
	own, err := keyringOf(secrets)
	return err == nil && a.allows(own)
}

// grant records that the registry has given an image that was present for these credentials of a pod, or to everybody.
func (i *Images) grant(ctx context.Context, img runtime.Image, to *credential) error {
	i.granting.Lock()
	defer i.granting.Unlock()
	stored, err := i.client.ImageService().Get(ctx, img.Name)
	if errdefs.IsNotFound(err) || err == nil && stored.Target.Digest.String() != img.Digest {
		return nil // it has just been removed, and whoever needs it finds that out
	}
	if err != nil {
		return err
	}
	before := readAccess(stored.Labels)
	var now access
	if to != nil && before != nil {
		now = before.plus(*to)
	}
	if slices.Equal(before, now) {
		return nil
	}
	defer i.forget()
	_, err = i.client.ImageService().Update(ctx, images.Image{
		Name: img.Name, Labels: map[string]string{labelAccess: strings.Join(now, ",")},
	}, "labels."+labelAccess)
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}
