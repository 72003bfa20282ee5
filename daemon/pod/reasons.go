package pod

import "github.com/jobd/jobd/api/podspec"

// Reasons and messages of a kubelet, which people and scripts look for.
const (
	reasonCompleted       = "Completed"
	reasonError           = "Error"
	reasonOOMKilled       = podspec.OOMKilled
	reasonStartError      = "StartError"
	reasonStatusUnknown   = "ContainerStatusUnknown"
	reasonCreating        = "ContainerCreating"
	reasonPodInitializing = "PodInitializing"
	reasonCrashLoop       = "CrashLoopBackOff"
	reasonPostStartHook   = "PostStartHookError"

	reasonImagePullBackOff = "ImagePullBackOff"

	reasonPodCompleted          = "PodCompleted"
	reasonPodFailed             = "PodFailed"
	reasonNotInitialized        = "ContainersNotInitialized"
	reasonContainersNotReady    = "ContainersNotReady"
	reasonReadinessGates        = "ReadinessGatesNotReady"
	reasonSandboxNotReady       = "PodSandboxNotReady"
	messageSandboxNotReady      = "pod sandbox is not ready"
	reasonDeadlineExceeded      = "DeadlineExceeded"
	messageDeadlineExceeded     = "Pod was active on the node longer than the specified deadline"
	messageNotLocated           = "The container could not be located when the pod was terminated"
	messageLost                 = "The end of the container is not known: the host or the process that held it went down"
	messageTerminationByKubelet = "The container was lost when the host or the process that held it went down"

	// exitStatusUnknown is the exit code of a container whose end was not observed, exitStartError that of one whose
	// process could not be started.
	exitStatusUnknown = 137
	exitStartError    = 128
)
