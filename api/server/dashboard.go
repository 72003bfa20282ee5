package server

import (
	"net/http"
	"strings"

	"github.com/jobd/jobd/dashboard"
)

// withDashboard serves the page beside the API: its files hold no data, so that they need no credentials. A request that a
// browser sends for another site is refused, since the browser may have added a client certificate that it knows.
func withDashboard(api http.Handler) http.Handler {
	page := dashboard.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path+"/", dashboard.Path):
			page.ServeHTTP(w, r)
		case dashboard.Foreign(r):
			dashboard.Confine(w.Header())
			http.Error(w, "a browser has sent this request for another site", http.StatusForbidden)
		default:
			api.ServeHTTP(w, r)
		}
	})
}
