// Package submit creates a Job and stays with it to its end: it shows its logs and progress, and turns its result into the
// exit code of a command. `jobctl submit`, `jobctl follow` and `jobd run` are made of it.
//
// Manifests or flags and a client of the API come in; an exit code goes out, and what a progress.Display shows. It speaks
// to the API alone and imports nothing of the daemon, so it works with a cluster too: what jobd has beyond that (the log of
// a Job, the progress of images) is asked for first, and done without where the server does not know it.
package submit

import (
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Exit codes of the commands that are not those of a container.
const (
	// ExitFailed says that the Job has failed, and no container says with which code; or that the command line is wrong.
	ExitFailed = 1
	// ExitDeadline says that a deadline has passed: activeDeadlineSeconds of the Job or of the pod that failed, or the
	// timeout of a wait.
	ExitDeadline = 124
	// ExitCannot says that the Job could not be run or followed: it was refused, its image cannot be had, the server does
	// not answer, somebody has deleted it, or its logs could not be written.
	ExitCannot = 125
	// ExitSignal and the number of a signal say that the command was interrupted by that.
	ExitSignal = 128
)

// Client is how the API is reached.
type Client struct {
	Kubernetes kubernetes.Interface
	Dynamic    dynamic.Interface
	// Words are what a command needs to reach the same server, with a space before them; empty if it needs nothing.
	Words string
}

// NewClient returns a client for a server.
func NewClient(config *rest.Config) (*Client, error) {
	k, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Client{Kubernetes: k, Dynamic: d}, nil
}
