package reach

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stayBelow makes a redirect to another page of the pod's server one that comes through the proxy, below base. One that leads elsewhere is
// an error, but for a browser: libraries for this API, such as client-go, show the token that is meant for it to whomever they are led to.
func stayBelow(answer *http.Response, base string) error {
	location := answer.Header.Get("Location")
	if location == "" {
		return nil
	}
	asked := answer.Request
	// Some clients take a dot that is encoded for a dot, by which paths go up, and others do not.
	to, err := asked.URL.Parse(encodedDot.Replace(location))
	if err != nil || to.Host != asked.URL.Host && to.Host != asked.Host || to.Scheme != "http" && to.Scheme != "https" {
		if answer.StatusCode/100 == 3 && !ofABrowser(asked.Header) {
			return &leadsElsewhere{location}
		}
		return nil
	}
	escaped := to.EscapedPath()
	if escaped != base && !strings.HasPrefix(escaped, base+"/") { // as servers that know of the proxy write it
		escaped = base + "/" + strings.TrimPrefix(escaped, "/")
	}
	below := url.URL{RawPath: escaped, RawQuery: to.RawQuery, Fragment: to.Fragment, RawFragment: to.RawFragment}
	if below.Path, err = url.PathUnescape(escaped); err != nil {
		return err
	}
	answer.Header.Set("Location", below.String())
	return nil
}

var encodedDot = strings.NewReplacer("%2e", ".", "%2E", ".")

// ofABrowser reports whether a browser of today sends a request, which shows what it knows of one site to no other.
func ofABrowser(h http.Header) bool { return h.Get("Sec-Fetch-Mode") != "" }

// leadsElsewhere is the error of an answer that leads to another server.
type leadsElsewhere struct{ to string }

func (l *leadsElsewhere) Error() string {
	const most = 200
	return fmt.Sprintf("what was asked leads elsewhere, to %.*q: that is passed on to browsers alone, since other clients would show their "+
		"credentials there", most, l.to)
}

func (l *leadsElsewhere) status() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusBadGateway, Reason: metav1.StatusReasonUnknown, Message: l.Error(),
	}}
}
