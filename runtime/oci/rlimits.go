package oci

import "github.com/opencontainers/runtime-spec/specs-go"

// Limits of open files as systemd sets them for a service, so that a container does not depend on how jobd was started.
const (
	openFilesSoft = 1024
	openFilesHard = 524288
)

func rlimits(host Host) []specs.POSIXRlimit {
	hard := min(openFilesHard, host.OpenFiles)
	return []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Soft: min(openFilesSoft, hard), Hard: hard}}
}
