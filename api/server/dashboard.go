package server

import (
	"net/http"
	"strings"

	"github.com/jobd/jobd/api/dashboard"
)

// withDashboard serves the page beside the API: its files hold no data, so that they need no credentials.
func withDashboard(api http.Handler) http.Handler {
	page := dashboard.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path+"/", dashboard.Path):
			page.ServeHTTP(w, r)
		case lured(r):
			dashboard.Confine(w.Header())
			http.Error(w, "a browser has sent this request for another site", http.StatusForbidden)
		default:
			api.ServeHTTP(w, r)
		}
	})
}

// lured reports whether a browser sends a request for another site, with credentials that it may have added by itself: a client
// certificate, or its place in front of a proxy or tunnel that lets it in. A browser adds no token for another site. Programs,
// which cannot be lured, may name any origin, as those do that use golang.org/x/net/websocket. Not every browser says of a
// WebSocket for which site it is, but all of them begin their names alike.
func lured(r *http.Request) bool {
	switch {
	case !dashboard.Foreign(r):
		return false
	case r.Header.Get("Sec-Fetch-Site") != "":
		return true // a proxy may have added the token
	}
	return r.Header.Get("Authorization") == "" && strings.HasPrefix(r.UserAgent(), "Mozilla/")
}
