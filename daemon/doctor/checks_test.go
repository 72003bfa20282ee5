package doctor

import (
	"strings"
	"testing"

	"github.com/jobd/jobd/daemon/host"
)

// TestClockHelp: what is advised is there.
func TestClockHelp(t *testing.T) {
	for _, c := range []struct {
		place   host.Place
		systemd bool
		want    string
	}{
		{"", true, "systemctl enable --now systemd-timesyncd"},
		{"", false, "chrony"},
		{host.InWSL, false, "chrony"},
		{host.InContainer, false, "synchronize it there"},
		{host.InContainer, true, "synchronize it there"},
	} {
		help := clockHelp(c.place, c.systemd)
		if calls := strings.Contains(help, "systemctl"); !strings.Contains(help, c.want) || calls != strings.Contains(c.want, "systemctl") {
			t.Errorf("%q, systemd %t: %s", c.place, c.systemd, help)
		}
	}
}
