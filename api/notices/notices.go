// Package notices has the annotations by which users ask to be told what becomes of their Jobs, and the format in which the
// daemon answers an administrator who asks about its receivers. The receivers themselves are settings of the daemon: an
// annotation has no more than their names, since whoever may submit a Job must not be able to make the daemon call anything.
package notices

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Annotations. The first three are read from the Job, and where it lacks one, from the CronJob that controls it, and then from
// the namespace.
const (
	// ReceiversAnnotation has the names of receivers, separated by commas; empty for none, whatever the namespace says.
	ReceiversAnnotation = "jobd.dev/notify"
	// OnAnnotation says of what they are told: kinds, separated by commas.
	OnAnnotation = "jobd.dev/notify-on"
	// AfterAnnotation is how long a Job may wait for its first pod to run before that is worth a notice.
	AfterAnnotation = "jobd.dev/notify-after"
	// EveryAnnotation of a CronJob, or of Jobs of one name, is within which time the next of them has to succeed.
	EveryAnnotation = "jobd.dev/expect-success-every"
)

// Kind is what has happened.
type Kind string

// The kinds that can be asked for.
const (
	Failed      Kind = "failed"       // a Job has failed
	Recovered   Kind = "recovered"    // the first success of a CronJob, or of Jobs of one name, after a failure or an Overdue
	Finished    Kind = "finished"     // a Job has ended, in any way
	Overdue     Kind = "overdue"      // no Job has succeeded within the time of EveryAnnotation
	StartedLate Kind = "started-late" // a Job has started after it had waited for longer than AfterAnnotation
	Waits       Kind = "waits"        // a Job has waited for that long, and has not started
)

// The kinds that come without being asked for.
const (
	Started Kind = "started" // for receivers that watch over times between start and end
	Test    Kind = "test"
)

// kinds are those that can be asked for.
var kinds = []Kind{Failed, Recovered, Finished, Overdue, StartedLate, Waits}

const (
	// DefaultAfter is the time without AfterAnnotation.
	DefaultAfter = 10 * time.Minute

	maxReceivers = 10
	maxList      = 1000 // bytes: lists are read again and again
	minEvery     = time.Minute
	longest      = 366 * 24 * time.Hour
)

// Wanted is what a user has asked for.
type Wanted struct {
	Receivers []string      `json:"receivers,omitempty"`
	On        []Kind        `json:"on,omitempty"`
	After     time.Duration `json:"after,omitempty"`
}

// Wants reports whether any receiver is to be told of a kind.
func (w Wanted) Wants(kind Kind) bool { return len(w.Receivers) > 0 && slices.Contains(w.On, kind) }

// Of returns what the annotations of a Job ask for, and those of what it belongs to, the nearest first. What is not valid is as
// if it were not there.
func Of(annotations ...map[string]string) Wanted {
	w := Wanted{On: []Kind{Failed, Recovered, Overdue}, After: DefaultAfter}
	if text, ok := nearest(ReceiversAnnotation, annotations); ok {
		w.Receivers, _ = receivers(text)
	}
	if text, ok := nearest(OnAnnotation, annotations); ok {
		if on, err := kindsOf(text); err == nil {
			w.On = on
		}
	}
	if text, ok := nearest(AfterAnnotation, annotations); ok {
		if after, err := durationOf(text, 0); err == nil {
			w.After = after
		}
	}
	return w
}

// Asks reports whether annotations say anything that Of reads.
func Asks(annotations map[string]string) bool {
	for _, name := range []string{ReceiversAnnotation, OnAnnotation, AfterAnnotation} {
		if _, ok := annotations[name]; ok {
			return true
		}
	}
	return false
}

func nearest(name string, annotations []map[string]string) (string, bool) {
	for _, of := range annotations {
		if text, ok := of[name]; ok {
			return text, true
		}
	}
	return "", false
}

// Every returns within which time a success is expected; 0 if none is.
func Every(annotations map[string]string) time.Duration {
	text, ok := annotations[EveryAnnotation]
	if !ok {
		return 0
	}
	every, err := durationOf(text, minEvery)
	if err != nil {
		return 0
	}
	return every
}

// Late is whether an expectation is met.
type Late struct {
	// Due is by when the next success is expected; zero: none is.
	Due time.Time
	// Overdue says that this has passed.
	Overdue bool
}

// Expect returns whether a success is overdue. last is that of the last success, nil for none so far, in which case the time
// since the creation counts.
func Expect(annotations map[string]string, created metav1.Time, last *metav1.Time, now time.Time) Late {
	every := Every(annotations)
	if every == 0 {
		return Late{}
	}
	since := created.Time
	if last != nil && last.After(since) {
		since = last.Time
	}
	due := since.Add(every)
	return Late{Due: due, Overdue: !now.Before(due)}
}

// Validate checks the annotations of a Namespace, CronJob or Job.
func Validate(annotations map[string]string, path *field.Path) (errs field.ErrorList) {
	for name, check := range map[string]func(string) error{
		ReceiversAnnotation: func(text string) error { _, err := receivers(text); return err },
		OnAnnotation:        func(text string) error { _, err := kindsOf(text); return err },
		AfterAnnotation:     func(text string) error { _, err := durationOf(text, 0); return err },
		EveryAnnotation:     func(text string) error { _, err := durationOf(text, minEvery); return err },
	} {
		text, ok := annotations[name]
		if !ok {
			continue
		}
		if err := check(text); err != nil {
			errs = append(errs, field.Invalid(path.Key(name), text, err.Error()))
		}
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return errs
}

// Names returns the receivers that annotations name, as far as they are valid.
func Names(annotations map[string]string) []string {
	names, _ := receivers(annotations[ReceiversAnnotation])
	return names
}

var errTooLong = fmt.Errorf("must be no longer than %d bytes", maxList)

// receivers returns the valid names of a list, and an error if there are others.
func receivers(text string) (names []string, err error) {
	if len(text) > maxList {
		return nil, errTooLong
	}
	for _, name := range list(text) {
		if len(names) == maxReceivers {
			return names, fmt.Errorf("must be at most %d names", maxReceivers)
		}
		if msgs := utilvalidation.IsDNS1123Label(name); len(msgs) > 0 {
			err = fmt.Errorf("must be names of receivers, separated by commas: %s", msgs[0])
			continue
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, err
}

func kindsOf(text string) (on []Kind, err error) {
	if len(text) > maxList {
		return nil, errTooLong
	}
	if len(list(text)) == 0 {
		return nil, fmt.Errorf("must be of %s, separated by commas: to be told of nothing, write %s: \"\"", KindList(), ReceiversAnnotation)
	}
	for _, word := range list(text) {
		if !slices.Contains(kinds, Kind(word)) {
			return nil, fmt.Errorf("must be of %s, separated by commas", KindList())
		}
		if !slices.Contains(on, Kind(word)) {
			on = append(on, Kind(word))
		}
	}
	return on, nil
}

// KindList returns the kinds that can be asked for, separated by commas.
func KindList() string {
	words := make([]string, 0, len(kinds))
	for _, k := range kinds {
		words = append(words, string(k))
	}
	return strings.Join(words, ",")
}

func durationOf(text string, least time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); err != nil && ok {
		if n, wrong := strconv.Atoi(days); wrong == nil && n > 0 && n <= 366 {
			return 0, fmt.Errorf("must be in hours, minutes or seconds: write %dh", 24*n)
		}
	}
	if err != nil || d <= 0 || d < least || d > longest {
		return 0, fmt.Errorf(`must be a duration such as "26h", at least %v and at most %v`, max(least, 1), longest)
	}
	return d, nil
}

func list(text string) (words []string) {
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			words = append(words, word)
		}
	}
	return words
}
