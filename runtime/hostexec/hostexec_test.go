package hostexec

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMain becomes a command if the test asks for that.
func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv("TEST_HOSTEXEC_DIR"); ok {
		os.Exit(Main(dir, os.Args[1:]))
	}
	os.Exit(m.Run())
}

func TestBecome(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"plain": "echo\n", "crlf": "#!/bin/sh\r\necho\n", "gone": "#!/no/such -x\n", "text": "text\n", "works": "#!/bin/sh\necho works in $PWD: $0 $*\n",
	} {
		mode := os.FileMode(0o755)
		if name == "plain" {
			mode = 0o644
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		in   string
		args []string
		code int
		says string
	}{
		{dir, []string{"./works", "a", "b c"}, 0, "works in " + dir + ": ./works a b c\n"},
		{dir, []string{"works"}, 0, "works in " + dir + ": " + filepath.Join(dir, "works")},
		{Home, []string{"pwd"}, 0, home + "\n"},
		{dir, nil, 127, "there is no command"},
		{dir, []string{""}, 127, "there is no command"},
		{dir, []string{"nothing"}, 127, "nothing: command not found along the PATH"},
		{dir, []string{"plain"}, 126, "it is not executable"},
		{dir, []string{"./plain"}, 126, "./plain: it is not executable: chmod +x ./plain"},
		{dir, []string{"./crlf"}, 127, "end with CRLF"},
		{dir, []string{"./gone"}, 127, `is not there: "/no/such"`},
		{dir, []string{"./text"}, 126, "no script with a first line"},
		{dir, []string{"./home"}, 126, "it is a directory"},
		{dir, []string{"./none"}, 127, "./none: no such file or directory"},
		{dir, []string{"./text/none"}, 127, "not a directory"},
		{filepath.Join(dir, "none"), []string{"pwd"}, 127, "cannot go to the working directory " + dir + "/none: no such file or directory"},
		{filepath.Join(dir, "text"), []string{"pwd"}, 127, "not a directory"},
	} {
		cmd := exec.Command(os.Args[0], c.args...)
		cmd.Env = []string{"TEST_HOSTEXEC_DIR=" + c.in, "HOME=" + home, "PATH=/usr/bin:/bin:" + dir}
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != c.code || !strings.Contains(string(out), c.says) {
			t.Errorf("%q in %s: %d, %s", c.args, c.in, got, out)
		}
	}
}

func TestInstead(t *testing.T) {
	got, err := Instead(Command("/home/alice", []string{"sleep", "1"}), []string{"id"})
	if err != nil || !slices.Equal(got, Command("/home/alice", []string{"id"})) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := Instead([]string{"sleep", "1"}, []string{"id"}); err == nil {
		t.Errorf("of no command of the host: %q", got)
	}
}
