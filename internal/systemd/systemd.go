// Package systemd says whether systemd runs the services of this machine, so that nobody is advised to call systemctl where there is none:
// in most containers, and on machines with another init.
package systemd

import "os"

// Runs reports whether it does, as sd_booted(3) finds out.
func Runs() bool {
	info, err := os.Lstat("/run/systemd/system")
	return err == nil && info.IsDir()
}
