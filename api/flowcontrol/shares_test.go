package flowcontrol

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
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

// However many requests of a user that take much computing come at once, few are computed with at a time, and another user's gets its turn.
func TestHeavyRequestsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shares := NewShares(10, func(*http.Request, *request.RequestInfo) bool { return false }, time.Minute)
		var atOnce, most int
		var mu sync.Mutex
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			atOnce += n
			most = max(most, atOnce)
		}
		given := shares.Fairly(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second) // the body is sent
			if err := Heavy(r.Context()); err != nil {
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			count(1)
			defer count(-1)
			time.Sleep(time.Second)
		}))
		serve := func(name string) int {
			r := httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/default/pods?dryRun=All", nil)
			ctx := request.WithRequestInfo(r.Context(), &request.RequestInfo{IsResourceRequest: true, Verb: "create", Resource: "pods"})
			w := httptest.NewRecorder()
			given.ServeHTTP(w, r.WithContext(WithClient(ctx, &user.DefaultInfo{Name: name})))
			return w.Code
		}
		const many = 60
		codes := make(chan int, many)
		for range many {
			go func() { codes <- serve("many") }()
		}
		time.Sleep(time.Second + time.Millisecond)
		began := time.Now()
		if code := serve("other"); code != http.StatusOK || time.Since(began) > 2*time.Second {
			t.Errorf("the request of another user: %d after %v", code, time.Since(began))
		}
		for range many {
			if code := <-codes; code != http.StatusOK && code != http.StatusTooManyRequests {
				t.Errorf("code %d", code)
			}
		}
		if one := shares.All()["heavy"].User; most > one+1 {
			t.Errorf("%d at once, one user may have %d", most, one)
		}
		if held, _, _ := shares.All()["heavy"].Figures(); held != 0 {
			t.Errorf("%d are held for nobody", held)
		}
	})
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
		{"jobd:admin:team", "jobd:role:admin:team:uid", "namespace team"},
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
