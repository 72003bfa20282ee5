//go:build unix

package overssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/internal/layout"
)

const (
	// persist is for how long ssh stays after the last connection.
	persist = 5 * time.Minute
	// handshake is how long a running ssh may take to answer.
	handshake = 10 * time.Second
)

// Line makes connections to one socket.
type Line struct {
	address Address
	errOut  io.Writer     // what ssh says
	turn    chan struct{} // held by whoever uses client
	client  *ssh.Client   // nil while there is none
	passes  atomic.Bool   // sshd does not let the socket be forwarded, and a jobctl there passes on
	users   atomic.Bool   // the socket is not for this user, and the one beside it is for all
}

// New returns the line to a socket. What ssh says while it connects goes to errOut; what it asks goes to the terminal itself.
func New(a Address, errOut io.Writer) *Line {
	return &Line{address: a, errOut: errOut, turn: make(chan struct{}, 1)}
}

// Dial makes a connection, and starts ssh where none is running.
func (l *Line) Dial(ctx context.Context) (net.Conn, error) {
	for again := false; ; again = true {
		client, err := l.connect(ctx)
		if err != nil {
			return nil, err
		}
		if l.passes.Load() {
			return l.pass(ctx, client)
		}
		c, err := client.DialContext(ctx, "unix", l.socket())
		var refused *ssh.OpenChannelError
		switch {
		case err == nil:
			return newTimed(c), nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(err, &refused):
			c, err := l.unanswered(ctx, client)
			if errors.Is(err, errForOthers) {
				l.users.Store(true)
				continue
			}
			return c, err
		}
		l.forget(client) // it has ended since the last connection
		if again {
			return nil, fmt.Errorf("the connection to %s by ssh has broken off: %w", l.address.Host, err)
		}
	}
}

// connect returns what leads through the running ssh, or through one that it starts.
func (l *Line) connect(ctx context.Context) (*ssh.Client, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-l.turn }()
	if l.client != nil {
		return l.client, nil
	}
	dir, err := l.address.directory()
	if err != nil {
		return nil, err
	}
	control := filepath.Join(dir, controlName)
	if l.client, err = attach(ctx, control); err == nil {
		l.users.Store(exists(filepath.Join(dir, usersMark)))
		return l.client, nil
	}
	unlock, err := l.lock(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if l.client, err = attach(ctx, control); err == nil {
		l.users.Store(exists(filepath.Join(dir, usersMark)))
		return l.client, nil // another command was faster
	}
	if err := os.Remove(control); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by an ssh that was killed
		return nil, err
	}
	if err := l.start(ctx, control); err != nil {
		return nil, err
	}
	if l.client, err = attach(ctx, control); err != nil {
		return nil, err
	}
	return l.client, l.choose(ctx, l.client, filepath.Join(dir, usersMark))
}

// choose finds out which of the two sockets is for this user, and marks that for the commands that share the connection. A look costs
// less than to be refused: OpenSSH ends a shared connection once a client has left that was refused a socket ("no remote_id").
func (l *Line) choose(ctx context.Context, client *ssh.Client, mark string) error {
	if err := os.Remove(mark); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l.users.Store(false) // it may be another one than before
	code, _ := l.look(ctx, client)
	if l.users.Store(code == isForOthers); code != isForOthers {
		return nil
	}
	return os.Mkdir(mark, 0o700)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// forget has the next connection look for a running ssh again.
func (l *Line) forget(client *ssh.Client) {
	l.turn <- struct{}{}
	if l.client == client {
		l.client = nil
	}
	<-l.turn
	_ = client.Close()
}

// attach returns what leads through the ssh that has this socket.
func attach(ctx context.Context, control string) (*ssh.Client, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", control)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(handshake))
	conn, channels, requests, err := ssh.NewControlClientConn(c)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	_ = c.SetDeadline(time.Time{})
	return ssh.NewClient(conn, channels, requests), nil
}

// start starts the ssh that all commands share, and returns when it is connected. It asks on the terminal what it has to ask. What the
// user's configuration says of forwardings, commands and terminals is meant for logins, and a shared connection of the user's own is left
// alone.
func (l *Line) start(ctx context.Context, control string) error {
	args := []string{"-f", "-N", "-T"}
	for _, option := range []string{
		"ControlMaster=yes", "ControlPath=" + control, "ControlPersist=" + strconv.Itoa(int(persist/time.Second)),
		"ServerAliveInterval=15", "ServerAliveCountMax=3", "ConnectTimeout=20",
		"ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no", "PermitLocalCommand=no", "RemoteCommand=none",
	} {
		args = append(args, "-o", option)
	}
	said := shown(l.errOut)
	cmd := exec.CommandContext(ctx, "ssh", append(args, l.address.arguments()...)...)
	cmd.Stderr = said
	cmd.WaitDelay = 100 * time.Millisecond // an older ssh keeps its standard error
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return l.address.noWay(said.String(), err)
	}
	return nil
}

// lock makes this command the only one that starts ssh. It waits for another one, which may be asking for a password.
func (l *Line) lock(ctx context.Context, dir string) (unlock func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for said := false; ; said = true {
		err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = d.Close() }, nil
		case !errors.Is(err, unix.EWOULDBLOCK):
			_ = d.Close()
			return nil, fmt.Errorf("lock %s: %w", dir, err)
		case !said:
			fmt.Fprintf(l.errOut, "Another jobctl is connecting to %s by ssh, waiting for it\n", l.address.Host)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			_ = d.Close()
			return nil, ctx.Err()
		}
	}
}

// look asks a shell there about the socket. The code is 0 where that is not possible.
func (l *Line) look(ctx context.Context, client *ssh.Client) (code int, user string) {
	s, err := client.NewSession()
	if err != nil {
		return 0, ""
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	said := &words{} // no more of it than has a use, whoever speaks there
	s.Stdout = said
	err = s.Run(look + l.socket())
	_ = s.Close()
	var ended *ssh.ExitError
	if !errors.As(err, &ended) {
		return 0, ""
	}
	return ended.ExitStatus(), strings.TrimSpace(said.String())
}

// unanswered finds out why sshd did not connect to the socket, which its answer does not say. If it seems to be all right there, a jobctl
// may be able to pass on. The process of sshd for the user keeps the groups of the login, so after a refusal the next command logs in again.
func (l *Line) unanswered(ctx context.Context, client *ssh.Client) (net.Conn, error) {
	code, user := l.look(ctx, client)
	if !plainUser.MatchString(user) {
		code = 0
	}
	switch code {
	case isDead: // jobctl finds the other socket by itself
		if c, err := l.pass(ctx, client); err == nil {
			l.passes.Store(true)
			return c, nil
		}
	case isForOthers:
		return nil, errForOthers
	case isMissing:
	default:
		l.end(client)
	}
	return nil, l.address.unanswered(code, user)
}

// errForOthers says that the other socket is the one for this user.
var errForOthers = errors.New("the socket is for others")

// socket returns the path of the socket that the user may open, as far as that is known.
func (l *Line) socket() string {
	if l.users.Load() {
		return layout.UsersSocket(l.address.Socket)
	}
	return l.address.Socket
}

// end ends the ssh that all commands share.
func (l *Line) end(client *ssh.Client) {
	l.forget(client)
	if dir, err := l.address.directory(); err == nil {
		// It needs no configuration, and no host that exists.
		_ = exec.Command("ssh", "-F", "/dev/null", "-O", "exit", "-o", "ControlPath="+filepath.Join(dir, controlName), "jobd").Run()
	}
}

// pass makes a connection through a jobctl on the other machine.
func (l *Line) pass(ctx context.Context, client *ssh.Client) (net.Conn, error) {
	s, err := client.NewSession()
	if err != nil {
		return nil, fmt.Errorf("%s lets neither sockets be forwarded (AllowStreamLocalForwarding) nor commands be run: %w", l.address.Host, err)
	}
	p := &program{said: &words{}, wait: s.Wait, kill: func() { _ = s.Close() }}
	s.Stderr = p.said
	if p.in, err = s.StdinPipe(); err != nil {
		return nil, err
	}
	if p.out, err = s.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := s.Start(l.address.passCommand()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return p.connection(ctx, l.address)
}

// forwardingHelps is the other way, if there is one.
func (a Address) forwardingHelps() string {
	return ", or let sshd forward sockets (AllowStreamLocalForwarding yes in its configuration)"
}

const (
	controlName = "c"
	// usersMark is there while the socket for this user is the one that is open to all.
	usersMark = "users"
	// longest is how long the path of a socket may be, less what ssh adds to it while it makes one.
	longest = 103 - 17
)

// plainDirectory are paths in which ssh replaces nothing.
var plainDirectory = regexp.MustCompile(`^/[A-Za-z0-9_./+-]*$`)

// directory returns the directory of the ssh for this address, which only the user can look into. Where all may write, another user may
// have taken the place: then it is in the user's own.
func (a Address) directory() (string, error) {
	own := "jobctl-" + strconv.Itoa(os.Getuid())
	parents := []string{filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "jobctl"), filepath.Join(os.TempDir(), own), filepath.Join("/tmp", own)}
	if home, err := os.UserHomeDir(); err == nil {
		parents = append(parents, filepath.Join(home, ".jobctl"))
	}
	var failed error
	for _, parent := range parents {
		dir := filepath.Join(parent, a.Key())
		if len(filepath.Join(dir, controlName)) > longest || !plainDirectory.MatchString(dir) {
			continue // $XDG_RUNTIME_DIR may be empty
		}
		err := private(parent)
		if err == nil {
			err = private(dir)
		}
		if err == nil {
			return dir, nil
		}
		failed = errors.Join(failed, err)
	}
	if failed == nil {
		failed = errors.New("their paths are too long, or have characters that ssh replaces")
	}
	return "", fmt.Errorf("there is no place for the socket of ssh, for which XDG_RUNTIME_DIR may name a directory: %w", failed)
}

// private makes a directory that only its user can look into, or makes sure that it is one.
func private(dir string) error {
	if err := os.Mkdir(dir, 0o700); err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	is, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	switch of, ok := is.Sys().(*syscall.Stat_t); {
	case ok && int(of.Uid) != os.Getuid():
		return fmt.Errorf("%s is not yours: user %d has made it, and only they or root can remove it", dir, of.Uid)
	case !ok || !is.IsDir() || is.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s is not a directory that nobody else can look into: remove it", dir)
	}
	return nil
}
