package yamltext

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"sigs.k8s.io/yaml"
)

// Every character comes back, as a value and as a key.
func TestEveryCharacter(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r > 0x11000 && r%997 != 0 { // those of a plane are alike
			continue
		}
		checkRoundTrip(t, "a"+string(r)+"b")
	}
}

func FuzzMarshal(f *testing.F) {
	for _, s := range []string{"", "\x7f", "\u009b31m", "\u202e", "\ufeff", "\uffff\x00\r\n", `\u007f`, `\\` + "\x7f", "1e3", "~", "\xff"} {
		f.Add(s)
		f.Add(strings.Repeat(s, 500))
	}
	f.Fuzz(checkRoundTrip)
}

func checkRoundTrip(t *testing.T, s string) {
	in := map[string]any{"k" + s: []any{s, true, 1.5}}
	asJSON, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	text, err := Marshal(in)
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	var want, out map[string]any
	if err := json.Unmarshal(asJSON, &want); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &out); err != nil {
		t.Fatalf("%q: %v in %q", s, err, text[:min(len(text), 200)])
	}
	if !reflect.DeepEqual(out, want) {
		t.Errorf("%q came back as %q", asJSON, out)
	}
}

// What YAML allows is written as sigs.k8s.io/yaml does.
func TestPlainObjects(t *testing.T) {
	in := map[string]any{
		"kind": "Job", "text": "two\nlines", "list": []string{"ä", "日本", "~", "0x1", "1e3", "yes"}, "html": "<&>", "empty": map[string]any{},
		"numbers": []any{3, -1, 1.5, 1e300, 1e21, 0.0, math.MaxInt64, uint64(math.MaxUint64)}, "rest": []any{nil, true, []any{}},
	}
	want, err := yaml.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Marshal(in); err != nil || string(got) != string(want) {
		t.Errorf("got %q, want %q, %v", got, want, err)
	}
}

func TestNoJSON(t *testing.T) {
	for _, s := range []string{"", "{", "{} {}", "{} x", "[1e999]"} {
		if text, err := FromJSON([]byte(s)); err == nil {
			t.Errorf("%q becomes %q", s, text)
		}
	}
}
