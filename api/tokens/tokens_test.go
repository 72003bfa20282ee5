package tokens

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// world is a store and a clock that is set by hand.
type world struct {
	*Tokens
	t    *testing.T
	time time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "db"), store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	w := &world{t: t, time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	w.Tokens = w.issuer(s)
	w.put("serviceaccounts", &corev1.ServiceAccount{}, "ns", "robot", "account")
	w.put("pods", &corev1.Pod{Spec: corev1.PodSpec{ServiceAccountName: "robot", NodeName: "node"}}, "ns", "p", "pod")
	w.put("secrets", &corev1.Secret{}, "ns", "s", "secret")
	w.put("nodes", &corev1.Node{}, "", "node", "nodeuid")
	return w
}

func (w *world) issuer(s *store.Store) *Tokens {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	tokens, err := New(key, s)
	if err != nil {
		w.t.Fatal(err)
	}
	tokens.now = func() time.Time { return w.time }
	return tokens
}

func (w *world) put(resource string, obj Object, namespace, name, uid string) {
	w.t.Helper()
	obj.SetNamespace(namespace)
	obj.SetName(name)
	obj.SetUID(types.UID(uid))
	value, err := scheme.Encode(obj)
	if err != nil {
		w.t.Fatal(err)
	}
	w.update(func(tx *store.Tx) {
		tx.Put(store.Object{Key: store.Key(resource, namespace, name), UID: uid, Value: value})
	})
}

func (w *world) remove(resource, namespace, name string) {
	w.t.Helper()
	w.update(func(tx *store.Tx) { tx.Delete(store.Key(resource, namespace, name)) })
}

func (w *world) update(fn func(*store.Tx)) {
	w.t.Helper()
	if err := w.store.Update(w.t.Context(), func(tx *store.Tx) error { fn(tx); return nil }); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) pod() *corev1.Pod {
	pod := &corev1.Pod{}
	if found, err := w.Read("pods", "ns", "p", pod); !found || err != nil {
		w.t.Fatal(found, err)
	}
	return pod
}

func TestHowLongATokenIsGood(t *testing.T) {
	request := Request{Namespace: "ns", Account: Ref{"robot", "account"}, Life: time.Hour}
	bound := func(edit func(*Request)) Request { r := request; edit(&r); return r }
	toPod := bound(func(r *Request) { r.Pod, r.Node = &Ref{"p", "pod"}, &Ref{"node", "nodeuid"} })
	toSecret := bound(func(r *Request) { r.Secret = &Ref{"s", "secret"} })
	toNode := bound(func(r *Request) { r.Node = &Ref{"node", "nodeuid"} })
	ends := func(after time.Duration) func(w *world) {
		return func(w *world) {
			pod := w.pod()
			pod.DeletionTimestamp = &metav1.Time{Time: w.time.Add(after)}
			w.put("pods", pod, "ns", "p", "pod")
		}
	}
	for _, c := range []struct {
		name    string
		request Request
		then    func(w *world)
		err     string
	}{
		{"at once", request, func(*world) {}, ""},
		{"until it expires", request, func(w *world) { w.time = w.time.Add(59 * time.Minute) }, ""},
		{"not longer", request, func(w *world) { w.time = w.time.Add(62 * time.Minute) }, "has expired"},
		{"not before", request, func(w *world) { w.time = w.time.Add(-2 * time.Minute) }, "not valid yet"},
		{"not without its account", request, func(w *world) { w.remove("serviceaccounts", "ns", "robot") }, `ended with serviceaccount "robot"`},
		{
			"not for another account of that name", request,
			func(w *world) { w.put("serviceaccounts", &corev1.ServiceAccount{}, "ns", "robot", "other") },
			`ended with serviceaccount "robot"`,
		},
		{"not without its pod", toPod, func(w *world) { w.remove("pods", "ns", "p") }, `ended with pod "p"`},
		{"not for another pod of that name", toPod, func(w *world) { w.put("pods", &corev1.Pod{}, "ns", "p", "other") }, `ended with pod "p"`},
		{"while its pod ends", toPod, ends(30 * time.Second), ""},
		{"not when its pod should long have ended", toPod, ends(-2 * time.Minute), `pod "p" is deleted`},
		{"whatever becomes of a pod it is not bound to", request, func(w *world) { w.remove("pods", "ns", "p") }, ""},
		{"that of a pod whatever becomes of the node", toPod, func(w *world) { w.remove("nodes", "", "node") }, ""},
		{"not without its secret", toSecret, func(w *world) { w.remove("secrets", "ns", "s") }, `ended with secret "s"`},
		{"not without its node", toNode, func(w *world) { w.remove("nodes", "", "node") }, `ended with node "node"`},
		{"not with another key", request, func(w *world) { w.Tokens = w.issuer(w.store) }, "error in cryptographic primitive"},
		{"not for this API if it is for others", bound(func(r *Request) { r.Audiences = []string{"vault"} }), func(*world) {}, `for the audiences ["vault"]`},
		{"if it is for others too", bound(func(r *Request) { r.Audiences = []string{"vault", Audience} }), func(*world) {}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			token, _, err := w.Issue(c.request)
			if err != nil {
				t.Fatal(err)
			}
			c.then(w)
			who, ok, err := w.AuthenticateToken(t.Context(), token)
			switch {
			case c.err == "" && (err != nil || !ok || who.User.GetName() != "system:serviceaccount:ns:robot" || who.User.GetUID() != "account"):
				t.Errorf("got %+v, %v, %v", who, ok, err)
			case c.err != "" && (ok || err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("got %+v, %v, want %q", who, err, c.err)
			}
		})
	}
}

func TestWhatIsNoTokenIsLeftToOthers(t *testing.T) {
	w := newWorld(t)
	for _, token := range []string{"", "admin", "a.b.c", "eyJhbGciOiJub25lIn0.e30."} {
		if who, ok, err := w.AuthenticateToken(t.Context(), token); who != nil || ok || err != nil {
			t.Errorf("%q: %v %v %v", token, who, ok, err)
		}
	}
	token, _, err := w.Issue(Request{Namespace: "ns", Account: Ref{"robot", "account"}, Life: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(token, ".")
	if _, ok, _ := w.AuthenticateToken(t.Context(), parts[0]+"."+parts[1]+"."+strings.Repeat("A", len(parts[2]))); ok {
		t.Error("a signature is not looked at")
	}
}

func TestTokenOfAPodIsKeptFresh(t *testing.T) {
	for _, c := range []struct {
		name     string
		life     time.Duration
		audience string // of the next one
		then     func(w *world)
		kept     bool
	}{
		{"kept while four fifths of its life are not over", time.Hour, "", func(w *world) { w.time = w.time.Add(47 * time.Minute) }, true},
		{"renewed then", time.Hour, "", func(w *world) { w.time = w.time.Add(49 * time.Minute) }, false},
		{"renewed after a day", 100 * time.Hour, "", func(w *world) { w.time = w.time.Add(25 * time.Hour) }, false},
		{"the longest life there is", 1 << 32 * time.Second, "", func(w *world) { w.time = w.time.Add(23 * time.Hour) }, true},
		{"renewed when the clock was set back", time.Hour, "", func(w *world) { w.time = w.time.Add(-time.Hour) }, false},
		{"another one for another audience", time.Hour, "vault", func(*world) {}, false},
		{
			"another one for another account of that name", time.Hour, "",
			func(w *world) { w.put("serviceaccounts", &corev1.ServiceAccount{}, "ns", "robot", "other") }, false,
		},
		{"renewed when the key is another one", time.Hour, "", func(w *world) { w.Tokens = w.issuer(w.store) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			first, err := w.ForPod(w.pod(), "", c.life, "")
			if err != nil {
				t.Fatal(err)
			}
			c.then(w)
			second, err := w.ForPod(w.pod(), c.audience, c.life, first)
			if err != nil || (second == first) != c.kept {
				t.Errorf("kept: %v, %v", second == first, err)
			}
			if _, ok, err := w.AuthenticateToken(t.Context(), second); ok != (c.audience == "") {
				t.Errorf("good: %v, %v", ok, err)
			}
		})
	}
	w := newWorld(t)
	w.remove("serviceaccounts", "ns", "robot")
	if _, err := w.ForPod(w.pod(), "", time.Hour, ""); err == nil || !strings.Contains(err.Error(), `serviceaccounts "robot" not found`) {
		t.Errorf("without its account: %v", err)
	}
}
