package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
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
		_ = conn.SetWriteDeadline(time.Now().Add(tellTime))
		_, err = conn.Write([]byte(state))
		return err
	}
}

// tellTime is how long systemd may take to hear something.
const tellTime = 100 * time.Millisecond

// systemdWatchdog returns a function that is called often while the daemon is well, and tells systemd of it as often as it asks for
// (WatchdogSec of the unit). It is nil if systemd does not ask. A process that does not come to call it, for example since all of
// its threads wait for one that the Go runtime cannot interrupt, is ended by systemd.
func systemdWatchdog(tell func(state string) error) (alive func()) {
	const period, process = "WATCHDOG_USEC", "WATCHDOG_PID"
	micros, err := strconv.ParseInt(os.Getenv(period), 10, 64)
	pid := os.Getenv(process)
	os.Unsetenv(period)
	os.Unsetenv(process)
	if err != nil || micros <= 0 || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return nil
	}
	var told time.Time
	return func() {
		if now := time.Now(); now.Sub(told) >= time.Duration(micros)*time.Microsecond/4 && tell("WATCHDOG=1") == nil {
			told = now
		}
	}
}
