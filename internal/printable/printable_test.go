package printable

import (
	"bytes"
	"encoding/xml"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// deceivers change how a text is shown and are not seen.
const deceivers = "\x00\x1b\x7f\u0085\u009b\u00ad\u061c\u200b\u200e\u202a\u202e\u2066\u2069\u2028\u2029\u2060\u3164\ufeff\U000e0041"

// harmless is text that looks like what it is: a joined emoji, a variation, joiners of Persian, a sign of Arabic, an icon of a font.
const harmless = "h\u00e9llo \u4e16\u754c \U0001f469\u200d\U0001f4bb \u2764\ufe0f \u0645\u06cc\u200c\u062e \u0600\u0661 \ue0b0"

func TestDeceivers(t *testing.T) {
	for _, r := range deceivers {
		in := "a" + string(r) + "b"
		for name, got := range map[string]string{"Text": Text(in), "XML": XML(in), "Line": Line(in), "ColoredLine": ColoredLine([]byte(in))} {
			if strings.ContainsRune(got, r) || strings.ContainsFunc(got, hidden) {
				t.Errorf("%s of %q is %q", name, in, got)
			}
			if want := map[string]string{"Text": "a\uFFFDb", "XML": "ab"}[name]; want != "" && got != want {
				t.Errorf("%s of %q is %q, want %q", name, in, got, want)
			}
		}
	}
	for name, got := range map[string]string{
		"Text": Text(harmless), "XML": XML(harmless), "Line": Line(harmless), "ColoredLine": ColoredLine([]byte(harmless)),
	} {
		if got != harmless {
			t.Errorf("%s of %q is %q", name, harmless, got)
		}
	}
}

func TestLines(t *testing.T) {
	if got := Text("a\n\tb\r"); got != "a\n\tb\uFFFD" {
		t.Errorf("Text: %q", got)
	}
	if got := XML("a\n\tb\r\xff"); got != "a\n\tb\uFFFD" {
		t.Errorf("XML: %q", got)
	}
	if got := Line("\x1b[31mred\x1b[0m\nnext\x1b]0;title\x07"); got != "red next" {
		t.Errorf("Line: %q", got)
	}
	for line, want := range map[string]string{
		"plain":                   "plain",
		"10%\r50%\r100%\r":        "100%",
		"a\tb":                    "a       b",
		"\x1b[31mred\x1b[0m":      "\x1b[31mred\x1b[0m\x1b[0m",
		"\x1b[2J\x1b[Hhome":       "home",
		"\x1b]0;title\x07text":    "text",
		"\x1b[?1049hother screen": "other screen",
		"bell\x07 back\b":         "bell back",
		"bad \xff byte":           "bad \uFFFD byte",
		"\u202etxt.exe":           "txt.exe",
	} {
		if got := ColoredLine([]byte(line)); got != want {
			t.Errorf("ColoredLine of %q: %q, want %q", line, got, want)
		}
	}
}

// A writer makes the same of a text, in whatever pieces it comes.
func TestWriter(t *testing.T) {
	in := harmless + "\n" + deceivers + "\xff\tend\n"
	for _, size := range []int{1, 2, 3, 7, len(in)} {
		var out bytes.Buffer
		w := Writer(&out)
		for piece := range slices.Chunk([]byte(in), size) {
			if n, err := w.Write(piece); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
		}
		if out.String() != Text(in) {
			t.Errorf("in pieces of %d: %q, want %q", size, out.String(), Text(in))
		}
	}
	if _, err := Writer(failing{}).Write([]byte("x")); err != errFailing {
		t.Errorf("an error is %v", err)
	}
}

type failing struct{}

var errFailing = errors.New("no space left")

func (failing) Write([]byte) (int, error) { return 0, errFailing }

func FuzzPrintable(f *testing.F) {
	for _, seed := range []string{"plain", "\x1b[31mred", "a\tb\rc", "\x1b]0;x\x07", "\x9b2J", "\xc2\x9b2J", "\x1bP+q\x1b\\", harmless, deceivers} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		out := ColoredLine(line)
		for rest := out; len(rest) > 0; {
			seq, width, n, _ := ansi.DecodeSequence(rest, 0, nil)
			rest = rest[n:]
			if width == 0 && seq < "\u00a0" && !(strings.HasPrefix(seq, "\x1b[") && strings.HasSuffix(seq, "m")) {
				t.Fatalf("%q lets %q through", line, seq)
			}
		}
		for _, plain := range []string{Text(string(line)), XML(string(line)), Line(string(line)), ansi.Strip(out)} {
			if i := strings.IndexFunc(plain, func(r rune) bool { return hidden(r) && !isSpace(r) }); i >= 0 || !utf8.ValidString(plain) {
				t.Fatalf("%q becomes %q", line, plain)
			}
		}
		var escaped bytes.Buffer
		if err := xml.EscapeText(&escaped, []byte(XML(string(line)))); err != nil {
			t.Fatal(err)
		}
		if err := xml.Unmarshal([]byte("<a>"+escaped.String()+"</a>"), new(string)); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	})
}
