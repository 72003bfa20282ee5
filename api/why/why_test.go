package why

import (
	"os/exec"
	"testing"
)

// A shell takes a word that others have written for nothing else.
func TestWordsOfCommands(t *testing.T) {
	if got := Word("db-1.example"); got != "db-1.example" {
		t.Errorf("a plain word is quoted: %s", got)
	}
	for _, text := range []string{"", "a b", "x; id", "$(id)", "`id`", "it's", "''", "a\nb", "\\", "-n", "~root", "*", "#", "a\x1b[2J"} {
		out, err := exec.Command("sh", "-c", "printf %s "+"_"+Word(text)).Output()
		if err != nil || string(out) != "_"+text {
			t.Errorf("%q is %q to a shell, %v", text, out, err)
		}
	}
}
