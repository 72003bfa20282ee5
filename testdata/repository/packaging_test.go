package repository

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestSyntaxOfScripts has the shell that each script names read it.
func TestSyntaxOfScripts(t *testing.T) {
	var scripts []string
	for _, pattern := range []string{"packaging/*.sh", "packaging/scripts/*.sh", "testdata/*.sh", "testdata/*/*.sh", "testdata/packages/guest/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: no scripts: %v", pattern, err)
		}
		scripts = append(scripts, found...)
	}
	for _, script := range scripts {
		if filepath.Ext(script) == ".service" {
			continue
		}
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		shell := "sh"
		if first, _, _ := strings.Cut(string(text), "\n"); strings.HasSuffix(first, "bash") {
			shell = "bash"
		}
		if out, err := exec.Command(shell, "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s -n %s: %v\n%s", shell, script, err, out)
		}
	}
}

// TestFilesOfPackages holds what nfpm.yaml puts into the packages against the files of the repository and what release.sh makes.
func TestFilesOfPackages(t *testing.T) {
	config := struct {
		Contents []struct{ Src, Dst string }
		Scripts  map[string]string
		Deb      struct{ Scripts map[string]string }
	}{}
	text, err := os.ReadFile("packaging/nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	for _, scripts := range []map[string]string{config.Scripts, config.Deb.Scripts} {
		for name, path := range scripts {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	release, err := os.ReadFile("packaging/release.sh")
	if err != nil {
		t.Fatal(err)
	}
	if len(config.Contents) == 0 || len(config.Scripts) != 3 || len(config.Deb.Scripts) != 1 {
		t.Fatalf("not understood: %+v", config)
	}
	made := strings.NewReplacer("$stage", "${DIST}/stage/${ARCH}", "$dist", "${DIST}", "$arch", "${ARCH}").Replace(string(release))
	for program := range strings.FieldsSeq("jobd jobctl") {
		made += "\n" + strings.ReplaceAll(made, "$program", program)
	}
	for _, c := range config.Contents {
		if !strings.Contains(made, c.Src) {
			t.Errorf("release.sh does not make %s, for %s", c.Src, c.Dst)
		}
	}
	for _, file := range []string{
		"usr/bin/", "./cmd/jobd ./cmd/jobd-shim ./cmd/jobctl", "usr/share/man/man", "bash-completion/completions", "vendor_completions.d",
		"zsh/site-functions", "usr/lib/systemd/system/jobd.service", "usr/lib/systemd/system/jobd-forward@.service",
		"jobd/copyright", "NOTICE", "THIRD-PARTY-NOTICES", "SHA256SUMS",
		"usr/share/jobd/users.yaml",
	} {
		if !strings.Contains(made, file) {
			t.Errorf("release.sh no longer makes %s", file)
		}
	}
}

// TestAForwarderHasAnEnd: what a hostile cluster lists without an end takes the memory of nobody else.
func TestAForwarderHasAnEnd(t *testing.T) {
	unit, err := os.ReadFile("packaging/jobd-forward@.service")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(unit), "\nMemoryMax=") {
		t.Error("a forwarder may take all memory of the machine")
	}
}

// TestInstalledFiles: who installs from a checkout gets what the packages have.
func TestInstalledFiles(t *testing.T) {
	out, err := exec.Command("make", "-n", "install", "DESTDIR=/to", "PREFIX=/usr").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"bin/jobd-shim", "/to/etc/systemd/system/jobd.service", "/to/etc/systemd/system/jobd-forward@.service",
		"/to/etc/jobd/jobd.yaml", "/to/usr/share/bash-completion/completions/$program",
		"/to/usr/share/zsh/site-functions/_$program", "/to/usr/share/fish/vendor_completions.d/$program.fish", "bin/jobctl man /to/usr/share/man/man1",
		"bin/jobd man /to/usr/share/man/man8",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("make install does not make %s:\n%s", want, out)
		}
	}
}

// TestScriptsOfPackages runs what dpkg and rpm run, with stand-ins for the programs of the host, and looks at what it calls.
func TestScriptsOfPackages(t *testing.T) {
	const (
		systemd = "systemd"
		debconf = "debconf"
		group   = "group"
		active  = "active"
		removed = "removed"
		disk    = "disk"
		// letIn is the call that lets members of the group jobd run pods as themselves.
		letIn = "install -D -m 0644 /usr/share/jobd/users.yaml ROOT/yaml.d/users.yaml"
	)
	tests := []struct {
		name string
		// script and its arguments.
		script string
		// host says what it has; pods is the number of running pods, answer that to the question of debconf.
		host   []string
		pods   int
		answer string
		// calls are made in this order, fails says that the script does.
		calls []string
		fails bool
	}{
		{name: "a first deb makes the group and starts the service", script: "postinstall configure", host: []string{systemd},
			calls: []string{"groupadd --system jobd", letIn, "systemctl daemon-reload", "systemctl enable --quiet jobd", "systemctl start jobd"}},
		{name: "a first rpm does too", script: "postinstall 1", host: []string{systemd, group},
			calls: []string{letIn, "systemctl daemon-reload", "systemctl enable --quiet jobd", "systemctl start jobd"}},
		{name: "an upgraded deb restarts the service", script: "postinstall configure 0.1.0-1", host: []string{systemd, group, active},
			calls: []string{"systemctl daemon-reload", "systemctl is-active --quiet jobd", "systemctl restart jobd"}},
		{name: "an upgraded rpm restarts the service", script: "postinstall 2", host: []string{systemd, group, active},
			calls: []string{"systemctl daemon-reload", "systemctl is-active --quiet jobd", "systemctl restart jobd"}},
		{name: "an upgrade leaves a stopped service alone", script: "postinstall configure 0.1.0-1", host: []string{systemd, group},
			calls: []string{"systemctl daemon-reload", "systemctl is-active --quiet jobd"}},
		{name: "an installation after a removal starts the service again", script: "postinstall configure 0.1.0-1",
			host: []string{systemd, group, removed}, calls: []string{"systemctl daemon-reload", "rm ROOT/removed",
				"systemctl enable --quiet jobd", "systemctl start jobd"}},
		{name: "without systemd nothing is started", script: "postinstall configure", host: []string{group}, calls: []string{letIn}},

		{name: "an upgrade of the deb stops nothing", script: "preremove upgrade 0.2.0-1", host: []string{systemd, debconf}, pods: 3},
		{name: "an upgrade of the rpm stops nothing", script: "preremove 1", host: []string{systemd}, pods: 3},
		{name: "removal asks for nothing where nothing runs", script: "preremove remove", host: []string{systemd, debconf},
			calls: []string{"systemctl disable --quiet --now jobd", "jobd clean"}},
		{name: "removal ends pods after the question", script: "preremove remove", host: []string{systemd, debconf}, pods: 2, answer: "true",
			calls: []string{"db_input critical jobd/end-pods", "systemctl disable --quiet --now jobd", "jobd clean"}},
		{name: "removal is refused by the answer", script: "preremove remove", host: []string{systemd, debconf}, pods: 2, answer: "false",
			calls: []string{"db_input critical jobd/end-pods"}, fails: true},
		{name: "removal of the rpm ends pods with a message", script: "preremove 0", host: []string{systemd, debconf}, pods: 2,
			calls: []string{"systemctl disable --quiet --now jobd", "cmp -s /usr/share/jobd/users.yaml ROOT/yaml.d/users.yaml", "rm ROOT/yaml.d/users.yaml",
				"rmdir ROOT/yaml.d", "jobd clean"}},

		{name: "removal keeps the data", script: "postremove remove", host: []string{systemd, group}, calls: []string{"systemctl daemon-reload"}},
		{name: "purge removes the data, the group and the answer", script: "postremove purge", host: []string{systemd, group, debconf},
			calls: []string{"systemctl daemon-reload", "rm -rf --one-file-system /run/jobd /etc/jobd", "rm -rf --one-file-system /var/lib/jobd",
				"groupdel jobd", "db_purge"}},
		{name: "purge empties a disk of the data's own", script: "postremove purge", host: []string{group, disk},
			calls: []string{"rm -rf --one-file-system /run/jobd /etc/jobd",
				"find /var/lib/jobd -xdev -mindepth 1 ! -name lost+found -delete", "groupdel jobd"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			has := map[string]bool{}
			for _, h := range test.host {
				has[h] = true
			}
			write := func(name, text string) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			called, exits := `echo "${0##*/} $*" >>`+dir+"/calls\n", map[bool]string{true: "exit 0\n", false: "exit 1\n"}
			for _, program := range []string{"groupadd", "groupdel", "rm", "rmdir", "cmp", "install", "jobd", "find"} {
				write(program, "#!/bin/sh\n"+called)
			}
			write("systemctl", "#!/bin/sh\n"+called+`[ "$1" != is-active ] || `+exits[has[active]])
			write("mountpoint", "#!/bin/sh\n"+exits[has[disk]])
			write("getent", "#!/bin/sh\n"+exits[has[group]])
			write("jobctl", "#!/bin/sh\nfor i in "+strings.Repeat("x ", test.pods)+"; do echo pod/$i; done\n")
			if has[systemd] {
				if err := os.Mkdir(filepath.Join(dir, "systemd"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if has[debconf] {
				write("confmodule", fmt.Sprintf(`
db_fset() { :; }
db_go() { :; }
db_input() { echo "db_input $*" >>%[1]s/calls; }
db_get() { RET=%[2]s; }
db_purge() { echo db_purge >>%[1]s/calls; }
`, dir, test.answer))
			}

			if has[removed] {
				write("removed", "")
			}
			script, arguments, _ := strings.Cut(test.script, " ")
			text, err := os.ReadFile("packaging/scripts/" + script + ".sh")
			if err != nil {
				t.Fatal(err)
			}
			write("script", strings.NewReplacer("/run/systemd/system", dir+"/systemd", "/usr/share/debconf/confmodule", dir+"/confmodule",
				"/etc/jobd/jobd.yaml.d", dir+"/yaml.d",
				"-e /etc/jobd/jobd.yaml", "-e "+dir+"/jobd.yaml", "/var/lib/jobd/removed", dir+"/removed", "-d /var/lib/jobd", "-d "+dir).Replace(string(text)))
			cmd := exec.Command("/bin/sh", append([]string{filepath.Join(dir, "script")}, strings.Fields(arguments)...)...)
			// Nothing of this host can be called but what counts lines.
			wc, err := exec.LookPath("wc")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(wc, filepath.Join(dir, "wc")); err != nil {
				t.Fatal(err)
			}
			cmd.Env = []string{"PATH=" + dir}
			out, err := cmd.CombinedOutput()
			if (err != nil) != test.fails {
				t.Errorf("it ended with %v:\n%s", err, out)
			}
			calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
			want := strings.ReplaceAll(strings.Join(test.calls, "\n"), "ROOT", dir)
			got := string(bytes.TrimSpace(regexp.MustCompile(`(?m) +$`).ReplaceAll(calls, nil)))
			if got != want {
				t.Errorf("it called\n%s\ninstead of\n%s\nand said\n%s", got, want, out)
			}
			if _, err := os.Stat(filepath.Join(dir, "removed")); (err == nil) != (has[removed] || test.script == "postremove remove") {
				t.Errorf("the mark of a removal: %v", err)
			}
			switch {
			case test.fails && !bytes.Contains(out, []byte("jobd: not removed, because pods are running")):
				t.Errorf("it does not say why it was refused: %s", out)
			case !test.fails && script == "preremove" && len(test.calls) > 0 && test.pods > 0 && !bytes.Contains(out, []byte("jobd: ending 2 running pods")):
				t.Errorf("it does not say that pods end: %s", out)
			}
		})
	}
}
