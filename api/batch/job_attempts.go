package batch

import (
	"encoding/json"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// AttemptsAnnotation holds the history of a Job that was retried: the attempts before the current one, as a JSON list
	// of Attempt, oldest first. Only a retry writes it: what clients send is ignored, as for the status.
	AttemptsAnnotation = "jobd.dev/attempts"
	// AttemptAnnotation is the number of the attempt that a pod belongs to, if that is not the first.
	AttemptAnnotation = "jobd.dev/attempt"

	// ManifestHashAnnotation tells what a Job or pod of the directory of manifests (jobd serve --manifests) was applied from: it is
	// applied again only once that has changed.
	ManifestHashAnnotation = "jobd.dev/manifest-hash"
)

// Attempt is how an attempt of a Job ended that was retried afterwards.
type Attempt struct {
	Attempt   int          `json:"attempt"` // from 1 on
	StartTime *metav1.Time `json:"startTime,omitempty"`
	EndTime   metav1.Time  `json:"endTime"`
	// Reason and Message are those of the condition Failed.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Succeeded, Failed and FailedIndexes are those of the status. A later attempt keeps what has succeeded.
	Succeeded     int32  `json:"succeeded"`
	Failed        int32  `json:"failed"`
	FailedIndexes string `json:"failedIndexes,omitempty"`
	// RetriedAt and RetriedBy say when the next attempt was asked for, and by whom.
	RetriedAt metav1.Time `json:"retriedAt"`
	RetriedBy string      `json:"retriedBy,omitempty"`
	// Changes are what the next attempt has that this one had not, in words.
	Changes []string `json:"changes,omitempty"`
}

// Attempts returns the attempts of a Job before the one that runs now; none for a Job that was never retried.
func Attempts(annotations map[string]string) []Attempt {
	var all []Attempt
	if text := annotations[AttemptsAnnotation]; text == "" || json.Unmarshal([]byte(text), &all) != nil {
		return nil
	}
	return all
}

// AttemptOf returns the number of the attempt that a Job is in: 1, or more after a retry.
func AttemptOf(annotations map[string]string) int {
	if all := Attempts(annotations); len(all) > 0 {
		return all[len(all)-1].Attempt + 1
	}
	return 1
}

// PodAttempt returns the number of the attempt of its Job that a pod belongs to.
func PodAttempt(annotations map[string]string) int {
	if n, err := strconv.Atoi(annotations[AttemptAnnotation]); err == nil && n > 1 {
		return n
	}
	return 1
}
