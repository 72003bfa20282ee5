package flowcontrol

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/jobd/jobd/api/roles"
	"github.com/jobd/jobd/api/storage"
)

// The handlers give up what does not end in time. It goes on, with the place and the memory that its client has for it.
func TestPlacesAreHeldUntilTheWorkEnds(t *testing.T) {
	shares := NewShares(10, func(*http.Request, *request.RequestInfo) bool { return false }, time.Minute)
	var end func()
	given := shares.Fairly(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var err error
		if end, err = storage.Begin(r.Context()); err != nil {
			t.Error(err)
		}
		if err := storage.Hold(r.Context(), 1<<20); err != nil {
			t.Error(err)
		}
	}))
	r := httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/default/pods", nil)
	ctx := request.WithRequestInfo(r.Context(), &request.RequestInfo{IsResourceRequest: true, Verb: "create", Resource: "pods"})
	given.ServeHTTP(httptest.NewRecorder(), r.WithContext(WithClient(ctx, &user.DefaultInfo{Name: "a"})))
	held := func() (places, bytes int) {
		places, _, _ = shares.All()["write"].Figures()
		bytes, _ = shares.Held()
		return places, bytes
	}
	if places, bytes := held(); places != 1 || bytes != 1<<20 {
		t.Errorf("holds %d and %d bytes while it goes on", places, bytes)
	}
	if end(); end != nil {
		if places, bytes := held(); places != 0 || bytes != 0 {
			t.Errorf("holds %d and %d bytes when it has ended", places, bytes)
		}
	}
}

// A client that has a role in a namespace gets no more by making ServiceAccounts there.
func TestInWhoseNamePlacesAreHeld(t *testing.T) {
	for _, tc := range []struct {
		user, group, want string
	}{
		{"jobd:uid:1000", roles.AdminGroup, "jobd:uid:1000"},
		{"jobd:submit", "jobd:role:submit", "jobd:submit"},
		{"jobd:submit:team", "jobd:role:submit:team", "namespace team"},
		{"jobd:admin:team", "jobd:role:admin:team", "namespace team"},
		{"system:serviceaccount:team:one", "system:serviceaccounts", "namespace team"},
		{"system:serviceaccount:team:two", "system:serviceaccounts", "namespace team"},
		{"system:serviceaccount:other:one", "system:serviceaccounts", "namespace other"},
		{"system:anonymous", "system:unauthenticated", "system:anonymous"},
	} {
		who := &user.DefaultInfo{Name: tc.user, Groups: []string{tc.group, user.AllAuthenticated}}
		if got := shareOf(who); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.user, got, tc.want)
		}
	}
}
