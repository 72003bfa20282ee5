package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestThePictureIsThatOfTheSession: the README shows what was recorded, in a file that loads at once, and that is XML.
func TestThePictureIsThatOfTheSession(t *testing.T) {
	text, err := os.ReadFile("session.json")
	if err != nil {
		t.Fatal(err)
	}
	s := &session{}
	if err := json.Unmarshal(text, s); err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile("../../../docs/images/submit-and-watch.svg")
	if err != nil {
		t.Fatal(err)
	}
	if draw(s) != string(picture) {
		t.Error("docs/images/submit-and-watch.svg is not that of session.json: make screenshots")
	}
	if len(picture) > 300_000 {
		t.Errorf("it has %d bytes", len(picture))
	}
	for d := xml.NewDecoder(strings.NewReader(string(picture))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestRow(t *testing.T) {
	got := row("a \x1b[1;32mb<\x1b[0m\x1b[48;5;16m c\x1b[0m")
	for _, want := range []string{
		`<text x="0.0" y="13" textLength="8.4">a</text>`,
		`x="16.8" y="13" textLength="16.8" fill="#00a77a" font-weight="700">b&lt;</text>`,
		`<rect x="33.6" width="16.8" height="18" fill="#000000"/><text x="42.0"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

func TestRowsBeginWithWhatIsLeft(t *testing.T) {
	got := rowsOf("a\x1b[31mb\nc\x1b[0m\nd\n")
	if want := []string{"a\x1b[31mb", "\x1b[31mc\x1b[0m", "d"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
