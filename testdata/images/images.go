// Package images builds images for tests and for the demo from programs of this machine, offline: busybox, and
// stand-ins for perl, python, bash, ubuntu and redis. Building one again yields the same digest as long as the
// machine's programs stay the same.
package images

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Image is an image with the names it goes by. It can be pushed as any v1.Image.
type Image struct {
	v1.Image
	Names []string
}

// New makes an image of one layer for this machine's platform.
func New(t *Tree, config v1.Config, names ...string) (Image, error) {
	return FromLayers(config, names, t)
}

// FromLayers makes an image with a layer for each tree, the lowest first.
func FromLayers(config v1.Config, names []string, trees ...*Tree) (Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, t := range trees {
		if t.err != nil {
			return Image{}, t.err
		}
		l, err := newLayer(t)
		if err != nil {
			return Image{}, err
		}
		if img, err = mutate.Append(img, mutate.Addendum{Layer: l, History: v1.History{
			Created: v1.Time{Time: epoch}, CreatedBy: "jobd/testdata/images",
		}}); err != nil {
			return Image{}, err
		}
	}
	file, err := img.ConfigFile()
	if err != nil {
		return Image{}, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Created = v1.Time{Time: epoch}
	file.Config = config
	if img, err = mutate.ConfigFile(img, file); err != nil {
		return Image{}, err
	}
	return Image{img, names}, nil
}

// As returns the same image under other names.
func (i Image) As(names ...string) Image { return Image{i.Image, names} }

// Docker returns the image as an archive in the format of docker save, to be read once. Its names are those that it was
// given, written as docker writes them, without the default registry.
func (i Image) Docker() io.ReadCloser {
	return pipe(func(w io.Writer) error { return WriteDocker(w, i) })
}

// OCI returns the image as an archive of an OCI layout, to be read once.
func (i Image) OCI() io.ReadCloser {
	return pipe(func(w io.Writer) error { return WriteOCI(w, i) })
}

// WriteDocker writes images as one archive in the format of docker save.
func WriteDocker(w io.Writer, images ...Image) error {
	refs := map[name.Reference]v1.Image{}
	for _, img := range images {
		for _, n := range img.Names {
			tag, err := name.NewTag(n)
			if err != nil {
				return err
			}
			refs[tag] = img.Image
		}
		if len(img.Names) == 0 {
			digest, err := img.Digest()
			if err != nil {
				return err
			}
			// A reference by digest gets no tag in the archive.
			refs[nameless.Digest(digest.String())] = img.Image
		}
	}
	return tarball.MultiRefWrite(refs, w)
}

var nameless, _ = name.NewRepository("localhost/nameless")

// WriteOCI writes images as one archive of an OCI layout. The full names are in the annotation
// io.containerd.image.name and the tags in org.opencontainers.image.ref.name, as containerd and docker write them.
func WriteOCI(w io.Writer, images ...Image) error {
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{}}
	a := archive{w: tar.NewWriter(w), seen: map[v1.Hash]bool{}}
	a.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	for _, img := range images {
		descriptor, err := a.image(img)
		if err != nil {
			return err
		}
		if len(img.Names) == 0 {
			index.Manifests = append(index.Manifests, descriptor)
		}
		for _, n := range img.Names {
			tag, err := name.NewTag(n)
			if err != nil {
				return err
			}
			named := descriptor
			named.Annotations = map[string]string{
				"io.containerd.image.name":          fullName(tag),
				"org.opencontainers.image.ref.name": tag.TagStr(),
			}
			index.Manifests = append(index.Manifests, named)
		}
	}
	raw, err := json.Marshal(index)
	if err != nil {
		return err
	}
	a.file("index.json", raw)
	if a.err != nil {
		return a.err
	}
	return a.w.Close()
}

// fullName returns the name with "docker.io" for the default registry, which the library spells index.docker.io.
func fullName(tag name.Tag) string {
	if tag.RegistryStr() == name.DefaultRegistry {
		return "docker.io/" + tag.RepositoryStr() + ":" + tag.TagStr()
	}
	return tag.Name()
}

// archive writes an OCI layout. Its first error is kept.
type archive struct {
	w    *tar.Writer
	seen map[v1.Hash]bool
	err  error
}

func (a *archive) image(img v1.Image) (v1.Descriptor, error) {
	layers, err := img.Layers()
	if err != nil {
		return v1.Descriptor{}, err
	}
	for _, l := range layers {
		digest, err := l.Digest()
		if err != nil {
			return v1.Descriptor{}, err
		}
		size, err := l.Size()
		if err != nil {
			return v1.Descriptor{}, err
		}
		r, err := l.Compressed()
		if err != nil {
			return v1.Descriptor{}, err
		}
		a.blob(digest, size, r)
		if err := r.Close(); err != nil {
			return v1.Descriptor{}, err
		}
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return v1.Descriptor{}, err
	}
	manifest, err := img.RawManifest()
	if err != nil {
		return v1.Descriptor{}, err
	}
	configDigest, _, _ := v1.SHA256(bytes.NewReader(config))
	a.blob(configDigest, int64(len(config)), bytes.NewReader(config))
	digest, size, _ := v1.SHA256(bytes.NewReader(manifest))
	a.blob(digest, size, bytes.NewReader(manifest))
	mediaType, err := img.MediaType()
	return v1.Descriptor{MediaType: mediaType, Digest: digest, Size: size,
		Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}}, err
}

func (a *archive) blob(digest v1.Hash, size int64, r io.Reader) {
	if !a.seen[digest] {
		a.seen[digest] = true
		a.entry("blobs/sha256/"+digest.Hex, size, r)
	}
}

func (a *archive) file(name string, content []byte) {
	a.entry(name, int64(len(content)), bytes.NewReader(content))
}

func (a *archive) entry(name string, size int64, r io.Reader) {
	if a.err != nil {
		return
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: epoch}
	if a.err = a.w.WriteHeader(h); a.err != nil {
		return
	}
	if _, err := io.Copy(a.w, r); err != nil {
		a.err = fmt.Errorf("write %s: %w", name, err)
	}
}
