package submit

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestHostMakesAJob(t *testing.T) {
	t.Chdir("/usr/lib")
	t.Setenv("LANG", "de_DE.UTF-8")
	t.Setenv("TZ", "$HOME")
	t.Setenv("SECRET", "not carried")
	got, err := manifest(t, "", "--host", "--cpu", "2", "-w", "x/y", "-e", "PATH=/mine", "--", "./Train.py", "$(lr)", "$$")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"image: jobd.dev/host\n", "generateName: train-py-", "workingDir: /usr/lib/x/y\n", "- ./Train.py\n", "- $(lr)\n", "- $$$$\n", "value: de_DE.UTF-8\n",
		"value: $$HOME\n", "value: /mine\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "SECRET") || strings.Count(got, "name: PATH") != 1 {
		t.Errorf("it has more than it should:\n%s", got)
	}
}

func TestHostGoesWithoutImage(t *testing.T) {
	t.Chdir("/usr")
	for want, args := range map[string][]string{
		"it is one or the other":           {"--host", "--image", "x", "--", "id"},
		"--host needs a command":           {"--host"},
		"all files are where they are":     {"--host", "--volume", "/a:/b", "--", "id"},
		"nothing is pulled":                {"--host", "--pull", "never", "--", "id"},
		"with --host it is so anyway":      {"--host", "--here", "--", "id"},
		"which a Job has of its own":       {"--host", "--workdir", "/tmp/../tmp/x", "--", "id"},
		"or a command of this machine":     {"--as-me"},
		"--here is for --image":            {"-f", "-", "--here"},
		"--here is for a directory of the": {"--image", "x", "--here", "--", "id"},
	} {
		if want == "--here is for a directory of the" {
			t.Chdir("/")
		}
		if got, err := manifest(t, "", args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q\n%s", args, err, want, got)
		}
		t.Chdir("/usr")
	}
}

func TestAsMeHere(t *testing.T) {
	t.Chdir("/usr")
	got, err := manifest(t, "", "--image", "x", "--as-me", "--here", "--", "id")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"runAsUser: " + strconv.Itoa(os.Getuid()) + "\n", "runAsGroup: ", "mountPath: /usr\n", "workingDir: /usr\n", "type: Directory\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it lacks %q:\n%s", want, got)
		}
	}
}
