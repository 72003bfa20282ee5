package main

import (
	"fmt"
	"net"
	"os"
)

// systemd returns a function that reports a state to the service manager as sd_notify(3) describes; without a manager
// it does nothing. The socket is removed from the environment at once: an OCI runtime that inherits it would pass it on
// to containers.
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
