package receivers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/smtp"
	"net/textproto"
	"os/exec"
	"slices"
	"time"

	"github.com/jobd/jobd/daemon/notify"
)

// mailer sends notices by mail.
type mailer struct {
	*notify.Mail
	host string
}

func (m *mailer) send(ctx context.Context, p *notify.Pending) error {
	message, err := p.MIME(m.Mail, m.host)
	if err != nil {
		return err
	}
	var to []string
	for _, name := range m.To {
		if !slices.Contains(p.Over, name) && !slices.Contains(to, name) {
			to = append(to, name)
		}
	}
	give := m.submit
	if m.SendmailPath() != "" {
		give, message = m.sendmail, unixLines(message)
	}
	refused, err := give(ctx, to, message)
	if err != nil {
		return err
	}
	return outcome(to, refused, len(p.Over) > 0)
}

// sendmail gives a message to the machine's sendmail: for each recipient anew, since it does not say for whom it has failed.
func (m *mailer) sendmail(ctx context.Context, to []string, message []byte) (refused []refusal, err error) {
	for _, name := range to {
		err := run(exec.CommandContext(ctx, m.SendmailPath(), "-i", "-f", m.Sender(m.host), "--", name), message)
		if err != nil {
			refused = append(refused, refusal{name, err, unknownTo(err)})
		}
	}
	return refused, nil
}

// unknownTo reports whether sendmail's exit code says that a recipient is wrong: EX_DATAERR, EX_NOUSER or EX_NOHOST of sysexits.h.
func unknownTo(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && slices.Contains([]int{65, 67, 68}, exit.ExitCode())
}

// unixLines ends lines as sendmail(8) expects them.
func unixLines(message []byte) []byte {
	lines := make([]byte, 0, len(message))
	for i, b := range message {
		if b == '\r' && i+1 < len(message) && message[i+1] == '\n' {
			continue
		}
		lines = append(lines, b)
	}
	return lines
}

// submit gives a message to a server, over TLS if the server can. An error says that nobody gets it.
func (m *mailer) submit(ctx context.Context, to []string, message []byte) (refused []refusal, err error) {
	host, port, err := net.SplitHostPort(m.SMTP)
	if err != nil {
		return nil, err
	}
	plain, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.SMTP)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	if until, ok := ctx.Deadline(); ok {
		if err := plain.SetDeadline(until); err != nil {
			return nil, err
		}
	}
	defer context.AfterFunc(ctx, func() { _ = plain.SetDeadline(time.Unix(1, 0)) })() // the daemon stops
	bounded := &boundedConn{plain, maxSaid + len(to)*maxSaidOfOne}
	defer func() {
		if err != nil && bounded.left <= 0 {
			err = errSaysTooMuch // another one has all that was said
		}
	}()
	conn, secured := net.Conn(bounded), &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if port == "465" {
		conn = tls.Client(bounded, secured)
	}
	client, err := smtp.NewClient(conn, host)
	if err != nil {
		return nil, err
	}
	if err := client.Hello(m.host); err != nil {
		return nil, err
	}
	if can, _ := client.Extension("STARTTLS"); can {
		if err := client.StartTLS(secured); err != nil {
			return nil, err
		}
	}
	if m.Username != "" {
		password, err := readSecret(m.PasswordFile)
		if err != nil {
			return nil, err
		}
		if err := client.Auth(smtp.PlainAuth("", m.Username, password, host)); err != nil { // refuses without TLS
			return nil, fmt.Errorf("authentication: %w", err)
		}
	}
	if err := client.Mail(m.Sender(m.host)); err != nil {
		return nil, err
	}
	for _, name := range to {
		if err := client.Rcpt(name); err != nil {
			var answer *textproto.Error
			if !errors.As(err, &answer) {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			// 552 also says that there are too many, of whom the others may be next (RFC 5321, 4.5.3.1.10).
			refused = append(refused, refusal{name, err, answer.Code/100 == 5 && answer.Code != 552})
		}
	}
	if len(refused) == len(to) {
		_ = client.Quit()
		return refused, nil
	}
	body, err := client.Data()
	if err != nil {
		return nil, err
	}
	if _, err := body.Write(message); err != nil {
		return nil, errors.Join(err, body.Close())
	}
	if err := body.Close(); err != nil {
		return nil, err
	}
	_ = client.Quit() // it is accepted by now
	return refused, nil
}

// maxSaid is how much of what a server of mail says is read, its certificates included, and maxSaidOfOne how much more for each recipient:
// net/smtp keeps a line, or an answer of many lines, until its end.
const maxSaid, maxSaidOfOne = 128 << 10, 1 << 10

var errSaysTooMuch = errors.New("the server says more than any server of mail has to say")

// boundedConn is a connection of which no more is read than what is left.
type boundedConn struct {
	net.Conn
	left int
}

func (c *boundedConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errSaysTooMuch
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}
