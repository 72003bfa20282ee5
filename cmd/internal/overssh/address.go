// Package overssh makes connections to the socket of a jobd on another machine, by the user's own ssh: with its configuration, agent,
// keys and jump hosts, and with nothing on the other machine but sshd. All commands of a user share one connection, that of an ssh which
// the first of them starts and which ends by itself some minutes after the last. They speak to it as OpenSSH's own clients do
// (ControlMaster), so there is neither a process for each of them nor a port or a socket that leads to jobd. At jobd, its client is the
// process of sshd that has logged the user in, so it sees that user.
//
// Where this cannot be, because sshd does not let sockets be forwarded or ssh is that of Windows, a jobctl on the other machine passes on
// what comes through its standard input and output (Pass).
package overssh

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

const scheme = "ssh://"

// Is reports whether the name of a socket is an address as Parse reads it.
func Is(socket string) bool { return strings.HasPrefix(socket, scheme) }

// Address says where a socket is. What is empty is left to the configuration of ssh.
type Address struct {
	User, Host, Port string
	Socket           string // its path there
}

// What ssh, shells and the user's own configuration get to see is held to what they take for nothing but a name.
var (
	plainUser = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@+-]*\$?$`)
	plainHost = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$|^[0-9a-f:]+:[0-9a-f.:]*(%[A-Za-z0-9_.-]+)?$`) // or an address of IPv6
	plainPath = regexp.MustCompile(`^/[A-Za-z0-9_.@+=,:/-]+$`)
)

// Parse reads an address such as ssh://ann@lab:22/run/jobd/jobd.sock, of which only the host has to be there.
func Parse(text, defaultSocket string) (Address, error) {
	wrong := func(what string) (Address, error) {
		return Address{}, fmt.Errorf("%s: %s: the address of a jobd on another machine is ssh://[USER@]HOST[:PORT][/PATH]", text, what)
	}
	u, err := url.Parse(text)
	var parse *url.Error
	switch {
	case errors.As(err, &parse):
		return wrong(parse.Err.Error())
	case err != nil:
		return wrong(err.Error())
	}
	a := Address{User: u.User.Username(), Host: u.Hostname(), Port: u.Port(), Socket: u.Path}
	if a.Socket == "" || a.Socket == "/" {
		a.Socket = defaultSocket
	}
	_, password := u.User.Password()
	switch {
	case password:
		return Address{}, fmt.Errorf("%s@%s: an address has no password, ssh asks for it", scheme+a.User, a.Host)
	case a.Host == "":
		return wrong("it names no host")
	case !plainHost.MatchString(a.Host):
		return wrong(fmt.Sprintf("%q is no name of a host", a.Host))
	case u.User != nil && !plainUser.MatchString(a.User):
		return wrong(fmt.Sprintf("%q is no name of a user", a.User))
	case !plainPath.MatchString(a.Socket):
		return wrong(fmt.Sprintf("the path %q has characters that the path of a socket should not have", a.Socket))
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return wrong("it ends with the path")
	}
	return a, nil
}

// Key is a short name that no other address has.
func (a Address) Key() string {
	of := sha256.Sum256([]byte(strings.Join([]string{a.User, a.Host, a.Port, a.Socket}, "\x00")))
	return hex.EncodeToString(of[:5])
}

// arguments are those by which ssh finds the machine.
func (a Address) arguments() []string {
	var args []string
	if a.User != "" {
		args = append(args, "-l", a.User)
	}
	if a.Port != "" {
		args = append(args, "-p", a.Port)
	}
	return append(args, "--", a.Host)
}

// command is how somebody would log in there.
func (a Address) command() string {
	command := "ssh "
	if a.Port != "" {
		command += "-p " + a.Port + " "
	}
	if a.User != "" {
		command += a.User + "@"
	}
	return command + a.Host
}
