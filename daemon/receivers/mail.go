package receivers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/smtp"
	"os/exec"
	"time"

	"github.com/jobd/jobd/daemon/notify"
)

// mailer sends notices by mail.
type mailer struct {
	*notify.Mail
	host string
}

func (m *mailer) send(ctx context.Context, n *notify.Notice) error {
	message, err := n.MIME(m.Mail, m.host)
	if err != nil {
		return err
	}
	if program := m.SendmailPath(); program != "" {
		args := append([]string{"-i", "-f", m.Sender(m.host), "--"}, m.To...)
		return run(exec.CommandContext(ctx, program, args...), unixLines(message))
	}
	return m.submit(ctx, message)
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

// submit gives a message to a server, over TLS if the server can.
func (m *mailer) submit(ctx context.Context, message []byte) error {
	host, port, err := net.SplitHostPort(m.SMTP)
	if err != nil {
		return err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.SMTP)
	if err != nil {
		return err
	}
	defer conn.Close()
	if until, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(until); err != nil {
			return err
		}
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })() // the daemon stops
	secured := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if port == "465" {
		conn = tls.Client(conn, secured)
	}
	client, err := smtp.NewClient(conn, host)
	if err != nil {
		return err
	}
	if err := client.Hello(m.host); err != nil {
		return err
	}
	if can, _ := client.Extension("STARTTLS"); can {
		if err := client.StartTLS(secured); err != nil {
			return err
		}
	}
	if m.Username != "" {
		password, err := readSecret(m.PasswordFile)
		if err != nil {
			return err
		}
		if err := client.Auth(smtp.PlainAuth("", m.Username, password, host)); err != nil { // refuses without TLS
			return fmt.Errorf("authentication: %w", err)
		}
	}
	if err := client.Mail(m.Sender(m.host)); err != nil {
		return err
	}
	for _, to := range m.To {
		if err := client.Rcpt(to); err != nil {
			return fmt.Errorf("%s: %w", to, err)
		}
	}
	body, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := body.Write(message); err != nil {
		return errors.Join(err, body.Close())
	}
	if err := body.Close(); err != nil {
		return err
	}
	_ = client.Quit() // it is accepted by now
	return nil
}
