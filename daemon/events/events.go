// Package events turns what happened to an object into the Event to be stored about it, within the limits that a
// cluster sets to the events of its components. It does not use the store.
package events

import (
	"slices"
	"strconv"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/lru"

	"github.com/jobd/jobd/api/conditions"
)

// Sources of events: those of a cluster, since people and scripts look for them.
const (
	JobController      = "job-controller"
	CronJobController  = "cronjob-controller"
	JobSetController   = "jobset-controller"
	WorkloadController = "workload-controller"
	Scheduler          = "default-scheduler"
	Kubelet            = "kubelet"
	VolumeController   = "persistentvolume-controller"
	EphemeralVolumes   = "ephemeral_volume"
	Disruption         = "controllermanager"
	Services           = "endpoint-slice-controller"
)

// ControllerOf returns the component that the events of objects of a kind come from, which controls Jobs or is one.
func ControllerOf(kind string) string {
	switch kind {
	case "CronJob":
		return CronJobController
	case "JobSet":
		return JobSetController
	}
	return JobController
}

// Limits, as for a cluster's components.
const (
	// A component may record this many events about an object at once, and then one in every interval.
	eventBurst    = 25
	eventInterval = 5 * time.Minute
	// This many different messages of one type and reason, each soon after the one before, are combined into one event.
	similarEvents = 10
	similarWithin = 10 * time.Minute

	// subjects is how many objects are remembered, saidMost how many events about each.
	subjects = 1024
	saidMost = 64
)

// Recorder makes Event objects, limited as client-go limits those of a cluster's components: equal events raise a
// count, similar ones are combined, and one object cannot flood the store. It is not safe for concurrent use.
// client-go's own correlator makes a JSON patch for each repetition, which is not needed here and cost more than all
// decisions about a pod.
type Recorder struct {
	host  string
	about *lru.Cache // subject -> *remarks
	last  int64      // keeps names distinct that are made within one nanosecond
}

// subject is an object and a component that reports about it.
type subject struct {
	component string
	uid       types.UID
}

// remarks are the events about a subject.
type remarks struct {
	allowed *rate.Limiter
	kinds   []*similar
	said    []*said
}

// similar are events that differ only in their messages.
type similar struct {
	kind, reason string
	last         time.Time
	messages     []string // different ones, the latest last
	combined     *said    // nil unless there were too many
}

// said is an event that was recorded, or held back.
type said struct {
	kind, reason, message, fieldPath string

	name           string
	uid            types.UID
	created, first metav1.Time
	count          int32
}

// New makes an empty Recorder. host is the name of the node, for events of the kubelet.
func New(host string) *Recorder {
	return &Recorder{host: host, about: lru.New(subjects)}
}

// Event returns the object to be written: a new one, or an old one with a higher count. It returns nil if the limits
// drop the event. kind is corev1.EventTypeNormal or corev1.EventTypeWarning.
func (e *Recorder) Event(
	about corev1.ObjectReference, component, kind, reason, message string, now time.Time,
) *corev1.Event {
	message = conditions.Brief(message)
	r := e.remarks(subject{component, about.UID})
	at := metav1.NewTime(now)
	s, combined := r.say(kind, reason, message, about.FieldPath, now)
	if s.count++; s.count == 1 {
		e.last = max(e.last+1, now.UnixNano())
		s.name = about.Name + "." + strconv.FormatInt(e.last, 16)
		s.uid, s.created, s.first = uuid.NewUUID(), at, at
	}
	if !r.allowed.AllowN(now, 1) {
		return nil
	}
	if combined {
		message = conditions.Brief("(combined from similar events): " + message)
	}
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	source := corev1.EventSource{Component: component}
	if component == Kubelet {
		source.Host = e.host
	}
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: s.name, Namespace: namespace, UID: s.uid, CreationTimestamp: s.created},
		InvolvedObject: about,
		Reason:         reason,
		Message:        message,
		Source:         source,
		FirstTimestamp: s.first,
		LastTimestamp:  at,
		Count:          s.count,
		Type:           kind,

		ReportingController: component,
		ReportingInstance:   source.Host,
	}
}

func (e *Recorder) remarks(about subject) *remarks {
	if r, ok := e.about.Get(about); ok {
		return r.(*remarks)
	}
	r := &remarks{allowed: rate.NewLimiter(rate.Every(eventInterval), eventBurst)}
	e.about.Add(about, r)
	return r
}

// say finds the earlier event that this one repeats, and reports whether that is one event for several messages.
func (r *remarks) say(kind, reason, message, fieldPath string, now time.Time) (_ *said, combined bool) {
	k := r.similar(kind, reason)
	if now.Sub(k.last) > similarWithin {
		k.messages = nil
	}
	k.last = now
	if i := slices.Index(k.messages, message); i >= 0 {
		k.messages = append(slices.Delete(k.messages, i, i+1), message)
	} else {
		k.messages = append(k.messages, message)
	}
	if len(k.messages) >= similarEvents {
		k.messages = slices.Delete(k.messages, 0, 1)
		if k.combined == nil {
			k.combined = &said{}
		}
		return k.combined, true
	}
	for _, s := range r.said {
		if s.message == message && s.reason == reason && s.kind == kind && s.fieldPath == fieldPath {
			return s, false
		}
	}
	s := &said{kind: kind, reason: reason, message: message, fieldPath: fieldPath}
	if len(r.said) == saidMost {
		r.said = slices.Delete(r.said, 0, 1)
	}
	r.said = append(r.said, s)
	return s, false
}

func (r *remarks) similar(kind, reason string) *similar {
	for _, k := range r.kinds {
		if k.reason == reason && k.kind == kind {
			return k
		}
	}
	k := &similar{kind: kind, reason: reason}
	r.kinds = append(r.kinds, k)
	return k
}
