package image

import (
	"bytes"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/jobd/jobd/testdata/images"
)

// Whatever is imported, it is either an image or the archive's fault.
func FuzzImport(f *testing.F) {
	one, two := small(f, "one", "a:1"), small(f, "two")
	f.Add(read(f, one.Docker()), "")
	f.Add(read(f, one.OCI()), "b:2")
	f.Add(read(f, two.OCI()), "")
	f.Add(zipped(f, read(f, one.OCI())), "")
	f.Add(zstandard(f, read(f, one.Docker())), "")
	f.Add(tarOf(f, "manifest.json", `[{"Config":"c","Layers":null,"RepoTags":["a"]}]`), "")
	f.Add(tarOf(f, "oci-layout", `{"imageLayoutVersion":"1.0.0"}`), "")
	var both bytes.Buffer
	if err := images.WriteOCI(&both, one, two); err != nil {
		f.Fatal(err)
	}
	f.Add(both.Bytes(), "c")
	i := newImages(f, Options{})
	f.Fuzz(func(t *testing.T, archive []byte, name string) {
		list, err := i.Import(t.Context(), bytes.NewReader(archive), name)
		if err == nil && len(list) == 0 {
			t.Error("nothing was imported, and that is no error")
		}
		if err != nil && !errdefs.IsInvalidArgument(err) {
			t.Errorf("the archive is not blamed: %v", err)
		}
		for _, img := range list {
			if err := i.Remove(t.Context(), img.Name); err != nil && !errdefs.IsNotFound(err) {
				t.Error(err)
			}
		}
	})
}

func BenchmarkImportPerl(b *testing.B) {
	i := newImages(b, Options{})
	perl, err := images.Perl()
	if err != nil {
		b.Skip(err)
	}
	archive := read(b, perl.Docker())
	b.SetBytes(int64(len(archive)))
	for b.Loop() {
		if _, err := i.Import(b.Context(), bytes.NewReader(archive), ""); err != nil {
			b.Fatal(err)
		}
		if err := i.Remove(b.Context(), perl.Names[0]); err != nil {
			b.Fatal(err)
		}
	}
}
