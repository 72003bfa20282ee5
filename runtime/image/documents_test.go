package image

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"pgregory.net/rapid"
)

func TestCheckDocument(t *testing.T) {
	const good = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	object := func(v any) string {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	type m = map[string]any
	of := func(digest string, size int) m { return m{"digest": digest, "size": size} }
	for _, digest := range []string{
		"abc", ":", "foo:bar", "sha256:", "sha256:ab", "sha1:" + strings.Repeat("a", 40), "sha256:../../etc/passwd",
		"sha256:\x00",
	} {
		for name, doc := range map[string]string{
			"a config":        object(m{"config": of(digest, 2), "layers": []m{of(good, 1)}}),
			"a layer":         object(m{"config": of(good, 2), "layers": []m{of(good, 1), of(digest, 1)}}),
			"a manifest":      object(m{"manifests": []m{of(good, 1), of(digest, 1)}}),
			"a subject":       object(m{"config": of(good, 2), "subject": of(digest, 1)}),
			"a diff ID":       object(m{"rootfs": m{"diff_ids": []string{good, digest}}}),
			"data":            object(m{"manifests": []m{{"digest": good, "size": 1, "data": []byte(object(m{"config": of(digest, 2)}))}}}),
			"another case":    object(m{"Config": of(digest, 2), "layers": []m{of(good, 1)}}),
			"a second config": `{"config":` + object(of(good, 1)) + `,"CONFIG":` + object(of(digest, 1)) + `}`,
			"a broken rest":   `{"config":` + object(of(digest, 1)) + `,"schemaVersion":"x","manifests":7}`,
		} {
			if err := checkDocument([]byte(doc)); !errdefs.IsInvalidArgument(err) {
				t.Errorf("%s of the digest %q: %v", name, digest, err)
			}
		}
	}
	layers := func(n int) (list []m) {
		for range n {
			list = append(list, of(good, 1))
		}
		return list
	}
	for name, c := range map[string]struct {
		doc     string
		allowed bool
	}{
		"an image":              {object(m{"config": of(good, 2), "layers": layers(3)}), true},
		"127 layers":            {object(m{"config": of(good, 2), "layers": layers(127)}), true},
		"500 layers":            {object(m{"config": of(good, 2), "layers": layers(500)}), true},
		"501 layers":            {object(m{"config": of(good, 2), "layers": layers(501)}), false},
		"a negative size":       {object(m{"config": of(good, -1)}), false},
		"a large index":         {object(m{"manifests": layers(5000)}), true},
		"descriptors of 3 byte": {`{"layers":[{}` + strings.Repeat(",{}", 1_000_000) + `]}`, false},
		"labels":                {`{"config":{"Labels":{"":""` + strings.Repeat(`,"":""`, 500_000) + `}}}`, false},
		"commas in a string":    {`{"author":"` + strings.Repeat(`,[{\"`, 100_000) + `"}`, true},
		"null":                  {"null", true}, // it is found out elsewhere
		"no JSON":               {"\xff\x00", true},
	} {
		if err := checkDocument([]byte(c.doc)); (err == nil) != c.allowed || err != nil && !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The count is never less than what there is.
func TestValues(t *testing.T) {
	var draw func(t *rapid.T, depth int) (v any, n int)
	draw = func(t *rapid.T, depth int) (any, int) {
		switch k := rapid.IntRange(0, 4).Draw(t, "kind"); {
		case depth > 3 || k < 2:
			return rapid.String().Draw(t, "string"), 0
		case k == 2:
			return rapid.Int().Draw(t, "number"), 0
		case k == 3:
			list, n := []any{}, 0
			for range rapid.IntRange(0, 5).Draw(t, "length") {
				v, of := draw(t, depth+1)
				list, n = append(list, v), n+of+1
			}
			return list, n
		}
		object, n := map[string]any{}, 0
		for range rapid.IntRange(0, 5).Draw(t, "length") {
			v, of := draw(t, depth+1)
			key := rapid.String().Draw(t, "key")
			if _, again := object[key]; !again {
				object[key], n = v, n+of+1
			}
		}
		return object, n
	}
	rapid.Check(t, func(t *rapid.T) {
		v, n := draw(t, 0)
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if got := values(raw); got < n || got > 2*n+1 {
			t.Fatalf("%s has %d, found %d", raw, n, got)
		}
	})
}
