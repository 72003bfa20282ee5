package vm

import "testing"

// TestVolumes runs the tests of volumes that outlive pods on Debian's kernel, which has the quotas of every file system.
func TestVolumes(t *testing.T) {
	m := bootAtLength(t)
	m.volumes()
}

func (m *machine) volumes() {
	m.t.Helper()
	said := m.sh("mkdir -p /data/volumes && TMPDIR=/data/volumes persistent.test -test.v -test.timeout 1h")
	m.t.Log(said)
}
