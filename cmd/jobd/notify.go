package main

import (
	"fmt"
	"net"
	"os"
)

// systemd gives what tells the service manager of a state, as sd_notify(3) has it; without one that does nothing. It takes
// the socket out of the environment at once: an OCI runtime that inherits it would lead it into containers.
func systemd() (tell func(state string) error) {
	const variable = "NOTIFY_SOCKET"
	to := &net.UnixAddr{Name: os.Getenv(variable), Net: "unixgram"}
	os.Unsetenv(variable)
	return func(state string) error {
		if to.Name == "" {
			return nil
		}
		conn, err := net.DialUnix(to.Net, nil, to)
		if err != nil {
			return fmt.Errorf("tell systemd of %s: %w", state, err)
		}
		defer conn.Close()
		_, err = conn.Write([]byte(state))
		return err
	}
}
