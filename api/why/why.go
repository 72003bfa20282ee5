// Package why is the format in which jobd says why a Job, a pod, a CronJob or a JobSet is in the state that it is in:
// GET .../jobs/NAME/why, .../pods/NAME/why, .../cronjobs/NAME/why and .../jobsets/NAME/why, which only jobd has, answer with an Explanation as
// JSON. Print writes one in sentences, as "jobctl why" does.
package why

import (
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/forecast"
)

// APIVersion and Kind are those of every Explanation. Within the version fields and types of causes may be added, and
// none changes its meaning.
const (
	APIVersion = "why.jobd.dev/v1"
	Kind       = "Explanation"
)

// Sources of an Explanation.
const (
	// FromRecords is what the daemon itself decides by.
	FromRecords = "records"
	// FromAPI is what the objects and events of a cluster tell, which is less.
	FromAPI = "api"
)

// Explanation says why an object is in the state that it is in.
type Explanation struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Object is what was asked about, At when.
	Object Reference   `json:"object"`
	At     metav1.Time `json:"at"`
	// Source is FromRecords or FromAPI.
	Source string `json:"source"`
	// State is a word: Waiting, Running, Complete, Failed, Suspended, Terminating ... Of a Job it is that of batch.State.
	State string `json:"state"`
	// Reason says in a few words, for a list, why that is so: "no room for 2 CPUs (0 free)". It is the Brief of the cause that
	// matters most; empty if no cause has one.
	Reason string `json:"reason,omitempty"`
	// Forecast is when a Job is expected to start and to end; nil if nobody was asked.
	Forecast *forecast.Forecast `json:"forecast,omitempty"`
	// Message is a sentence about the state.
	Message string `json:"message"`
	// Causes are the reasons, the one that matters most first.
	Causes []Cause `json:"causes"`
}

// Reference names an object.
type Reference struct {
	Kind      string `json:"kind"` // Job, Pod, CronJob, JobSet, Node, ConfigMap ...
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String returns the object as jobctl takes it: jobs/pi.
func (r Reference) String() string {
	plural := map[string]string{"Job": "jobs/", "Pod": "pods/", "CronJob": "cronjobs/", "JobSet": "jobsets/", "Node": "nodes/"}[r.Kind]
	if plural == "" {
		return r.Kind + " " + r.Name
	}
	return plural + r.Name
}

// InNamespace returns the flag that names an object's namespace, if that is not the default one.
func InNamespace(namespace string) string {
	if namespace == "" || namespace == metav1.NamespaceDefault {
		return ""
	}
	return " -n " + namespace
}

// plainWord is what a shell takes for nothing but a word.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=,-]+$`)

// Word returns a text as one word of a command. A name that nobody has checked, which others have written, is quoted: whoever copies the
// command is to run no other one.
func Word(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Reaching lets a command that helps reach the server that was asked, by words with a space before them, or none: on another one it would
// meet another object.
func Reaching(help, words string) string {
	return strings.ReplaceAll(help, "jobctl ", "jobctl"+words+" ")
}

// Cause is one reason.
type Cause struct {
	// Type is a word that programs can compare: WaitsForRoom, BackOff, OOMKilled ...
	Type string `json:"type"`
	// Message says it in sentences.
	Message string `json:"message"`
	// Brief says it in a few words. A cause that only leads to others has none.
	Brief string `json:"brief,omitempty"`
	// Object is what it is about, if that is not what was asked about.
	Object *Reference `json:"object,omitempty"`
	// Since is when it began or happened, Until when it ends by itself.
	Since *metav1.Time `json:"since,omitempty"`
	Until *metav1.Time `json:"until,omitempty"`
	// Details are its figures by name, as in the API: amounts as quantities, durations as "10s".
	Details map[string]string `json:"details,omitempty"`
	// Log holds the last lines that a container has written.
	Log []string `json:"log,omitempty"`
	// Help are commands that help, or that show more.
	Help []string `json:"help,omitempty"`
	// Causes are the reasons for this one.
	Causes []Cause `json:"causes,omitempty"`
}

// Reason returns the Brief of the cause that matters most; empty if none has one.
func Reason(causes []Cause) string {
	if c := First(causes); c != nil {
		return c.Brief
	}
	return ""
}

// First returns the first cause that has a Brief, each before those that it follows from; nil if there is none.
func First(causes []Cause) *Cause {
	for i := range causes {
		if causes[i].Brief != "" {
			return &causes[i]
		}
		if c := First(causes[i].Causes); c != nil {
			return c
		}
	}
	return nil
}

// Passing reports whether a cause is part of the start of any pod, and ends by itself within moments.
func (c *Cause) Passing() bool { return c.Type == "StartsSoon" || c.Type == "Starting" }

// Find returns the first cause of a type, however deep; nil if there is none.
func Find(causes []Cause, kind string) *Cause {
	for i := range causes {
		if causes[i].Type == kind {
			return &causes[i]
		}
		if c := Find(causes[i].Causes, kind); c != nil {
			return c
		}
	}
	return nil
}
