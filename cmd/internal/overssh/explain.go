package overssh

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/jobd/jobd/internal/printable"
)

// reasons are what ssh says when it does not get through, and what that means.
var reasons = []struct{ said, means string }{
	{"Could not resolve hostname", "no host of that name is known here"},
	{"REMOTE HOST IDENTIFICATION HAS CHANGED", "its host key is another one than before"},
	{"Host key verification failed", "its host key is not known here, and nobody has confirmed it"},
	{"Permission denied", "it accepts none of the keys that ssh has offered, and no password"},
	{"Too many authentication failures", "it accepts none of the keys that ssh has offered"},
	{"Connection refused", "no sshd answers there"},
	{"Operation timed out", "it does not answer"},
	{"Connection timed out", "it does not answer"},
	{"No route to host", "there is no way to it in the network"},
	{"Network is unreachable", "there is no way to it in the network"},
}

// noWay returns the error of an ssh that has ended without getting through, by what it has said.
func (a Address) noWay(said string, err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%s%s needs the program ssh, which is not in the PATH: install OpenSSH's client", scheme, a.Host)
	}
	why := ""
	for _, r := range reasons {
		if strings.Contains(said, r.said) {
			why = r.means
			break
		}
	}
	if why == "" {
		lines := strings.Split(strings.TrimSpace(said), "\n")
		if why = printable.Text(strings.TrimSpace(lines[len(lines)-1])); why == "" {
			why = fmt.Sprint(err)
		}
	}
	return fmt.Errorf("cannot reach %s by ssh: %s; \"%s\" has to work first", a.Host, why, a.command())
}

// look is what a shell there finds out about the socket, to which sshd could not connect: it says the name of its user, and ends with one
// of these codes.
const (
	look = `sh -c 'id -un; d=${0%/*}; if test -e "$d" && ! test -x "$d"; then exit 12; fi; ` +
		`test -e "$0" || exit 11; if ! test -w "$0"; then test -w "${0%.sock}-users.sock" && exit 14; exit 12; fi; exit 13' `
	isMissing, isDenied, isDead = 11, 12, 13
	// isForOthers: the socket beside it is open to all users of the machine.
	isForOthers = 14
)

// unanswered returns the error for a socket that does not answer, by what look has found out.
func (a Address) unanswered(code int, user string) error {
	switch code {
	case isMissing, isDead:
		what := "there is no such socket"
		if code == isDead {
			what = "nobody serves this socket any more, or sshd does not let it be forwarded (AllowStreamLocalForwarding)"
		}
		return fmt.Errorf("jobd does not answer on %s of %s, %s: start it there (\"sudo systemctl start jobd\" if systemd runs it, else \"sudo jobd serve\"), or name its socket by %s%s/PATH",
			a.Socket, a.Host, what, scheme, a.Host)
	case isDenied:
		return fmt.Errorf("permission denied on jobd's socket %s of %s: somebody has to add %s to the group jobd there (sudo usermod -aG jobd %s); "+
			"its members are as good as root", a.Socket, a.Host, user, user)
	}
	return fmt.Errorf("jobd does not answer on %s of %s: it was not started, it has another socket, or it does not let you in (group jobd)", a.Socket, a.Host)
}
