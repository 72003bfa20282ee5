package history

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// Query says which Jobs to find; what is zero leaves out none.
type Query struct {
	Namespace, Name, CronJob, User string
	Since                          time.Time // what has ended before is left out
	Labels                         labels.Selector
	// Pods asks for what each pod has used.
	Pods bool
	// Limit is how many Jobs the answer has at most; 0 is MaxLimit. Continue is where it begins: what the last one said.
	Limit    int
	Continue string
}

// Parameters returns the query as the parameters of a request, all but the namespace, which is part of the path.
func (q Query) Parameters() url.Values {
	v := url.Values{}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	set(ParameterName, q.Name)
	set(ParameterCronJob, q.CronJob)
	set(ParameterUser, q.User)
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
		case ParameterCronJob:
			q.CronJob = value
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
