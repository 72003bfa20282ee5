package forward

import (
	"errors"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestWhoAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"an answer":                     {nil, true},
		"a line that is cut":            {errors.New("connection refused"), false},
		"a token that has expired":      {apierrors.NewUnauthorized("Unauthorized"), false},
		"an account that may not ask":   {apierrors.NewForbidden(batchv1.Resource("jobs"), "", nil), true},
		"a proxy before a server":       {apierrors.NewGenericServerResponse(502, "GET", batchv1.Resource("jobs"), "", "bad gateway", 0, true), false},
		"a server that is about to end": {apierrors.NewServiceUnavailable("ends"), false},
		"a server that is busy":         {apierrors.NewTooManyRequests("later", 1), true},
	} {
		l := line{}
		l.heard(c.err, now)
		if answers := l.since().IsZero(); answers != c.want || answers != (l.instead() == "") {
			t.Errorf("%s: answers is %v; instead %q", name, answers, l.instead())
		}
	}
}
