package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
)

// writeImage writes an archive as `docker save` does, of an image with one file of so many MB that cannot be compressed.
func writeImage(path string, mb int) error {
	layer, err := os.CreateTemp("", "jobd-bench-layer.")
	if err != nil {
		return err
	}
	defer layer.Close()
	if err := os.Remove(layer.Name()); err != nil {
		return err
	}
	hash, size := sha256.New(), int64(mb)*1e6
	w := tar.NewWriter(io.MultiWriter(layer, hash))
	if err := w.WriteHeader(&tar.Header{Name: "data", Mode: 0o644, Size: size, Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	if _, err := io.CopyN(w, rand.NewChaCha8([32]byte{1}), size); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	config := fmt.Appendf(nil, `{"architecture":%q,"os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":["sha256:%x"]}}`, runtime.GOARCH, hash.Sum(nil))
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{"docker.io/library/big:1"}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	archive := tar.NewWriter(out)
	for _, f := range []struct {
		name string
		text []byte
	}{{"manifest.json", manifest}, {"config.json", config}} {
		if err := archive.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.text)), Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		if _, err := archive.Write(f.text); err != nil {
			return err
		}
	}
	bytes, err := layer.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = layer.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = archive.WriteHeader(&tar.Header{Name: "layer.tar", Mode: 0o644, Size: bytes, Typeflag: tar.TypeReg})
	}
	if err == nil {
		_, err = io.Copy(archive, layer)
	}
	if err == nil {
		err = archive.Close()
	}
	if err != nil {
		return err
	}
	return out.Close()
}
