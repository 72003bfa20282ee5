package history

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Query says which Jobs to find; what is zero leaves out none.
type Query struct {
	Namespace, Name, GenerateName, CronJob, User string
	// JobSet asks for the ends of the JobSet of that name, and not for Jobs.
	JobSet string

	Since  time.Time // what has ended before is left out
	Labels labels.Selector
	// Pods asks for what each pod has used.
	Pods bool
	// Within leaves out what ran in a former namespace of the same name.
	Within Tenancy
	// Limit is how many Jobs the answer has at most; 0 is MaxLimit. Continue is where it begins: what the last one said.
	Limit    int
	Continue string
}

// Tenancy is one namespace among those that have had its name one after the other. The zero value stands for all of them.
type Tenancy struct {
	UID   string
	Began time.Time
}

// TenancyOf returns that of a namespace. nil stands for one that is gone: nothing of the history is of it.
func TenancyOf(ns *corev1.Namespace) Tenancy {
	if ns == nil {
		return Tenancy{Began: time.Now()}
	}
	return Tenancy{UID: string(ns.UID), Began: ns.CreationTimestamp.Time}
}

// Has reports whether a Job ran in this namespace. Of one that does not say where it ran, the time decides, which has whole
// seconds: what ended in the second in which the namespace began was of a former one.
func (t Tenancy) Has(j *Job) bool {
	switch {
	case t == Tenancy{}:
		return true
	case j.NamespaceUID != "":
		return j.NamespaceUID == t.UID
	}
	return j.Ended.Unix() > t.Began.Unix()
}

// Parameters returns the query as the parameters of a request, all but the namespace, which is part of the path, and Within,
// which the server decides on.
func (q Query) Parameters() url.Values {
	v := url.Values{}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	set(ParameterName, q.Name)
	set(ParameterGenerateName, q.GenerateName)
	set(ParameterCronJob, q.CronJob)
	set(ParameterUser, q.User)
	set(ParameterJobSet, q.JobSet)
	set(ParameterContinue, q.Continue)
	if !q.Since.IsZero() {
		set(ParameterSince, q.Since.Format(time.RFC3339))
	}
	if q.Labels != nil {
		set(ParameterLabels, q.Labels.String())
	}
	if q.Pods {
		set(ParameterPods, "true")
	}
	if q.Limit > 0 {
		set(ParameterLimit, strconv.Itoa(q.Limit))
	}
	return v
}

// ParseQuery reads the parameters of a request. A parameter that it does not know is an error, since an answer without it
// would not be what was asked for.
func ParseQuery(namespace string, v url.Values) (q Query, err error) {
	q.Namespace = namespace
	for name := range v {
		value := v.Get(name)
		switch name {
		case ParameterName:
			q.Name = value
		case ParameterGenerateName:
			q.GenerateName = value
		case ParameterCronJob:
			q.CronJob = value
		case ParameterJobSet:
			q.JobSet = value
		case ParameterUser:
			q.User = value
		case ParameterContinue:
			q.Continue = value
		case ParameterSince:
			q.Since, err = time.Parse(time.RFC3339, value)
		case ParameterLabels:
			q.Labels, err = labels.Parse(value)
		case ParameterPods:
			q.Pods, err = strconv.ParseBool(value)
		case ParameterLimit:
			if q.Limit, err = strconv.Atoi(value); err == nil && q.Limit < 0 {
				err = errors.New("it must not be below 0")
			}
		case "timeout", "pretty": // of every request
		default:
			return q, fmt.Errorf("there is no parameter %q", name)
		}
		if err != nil {
			return q, fmt.Errorf("parameter %s: %q: %w", name, value, err)
		}
	}
	return q, nil
}
