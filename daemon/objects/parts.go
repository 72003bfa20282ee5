package objects

import "github.com/jobd/jobd/api/scheme"

// Parts of stored objects, by the field numbers in Kubernetes' generated.proto. Most of what is looked at in bulk needs no
// more of each object, and decoding the rest costs far more.
var (
	// JobEnd tells whether anything is still to be decided for a Job.
	JobEnd = scheme.Fields{
		1: {9: nil}, // metadata: deletionTimestamp
		2: {8: nil}, // spec: ttlSecondsAfterFinished
		3: {1: nil}, // status: conditions
	}
	// PodEnd tells whether anything is still to be decided for a pod.
	PodEnd = scheme.Fields{
		1: {9: nil, 14: nil}, // metadata: deletionTimestamp, finalizers
		2: {10: nil},         // spec: nodeName
		3: {1: nil, 2: nil},  // status: phase, conditions
	}
	// PodOnNode tells whether a pod runs here.
	PodOnNode = scheme.Fields{
		2: {10: nil}, // spec: nodeName
		3: {1: nil},  // status: phase
	}
	// PodImages tells which images a pod uses.
	PodImages = scheme.Fields{
		2: {2: nil, 20: nil}, // spec: containers, initContainers
		3: {1: nil},          // status: phase
	}
	// Finalizers tells who holds an object of any kind.
	Finalizers = scheme.Fields{1: {14: nil}} // metadata: finalizers
)
