package server

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/store"
)

// askedHistory keeps what it was asked.
type askedHistory struct{ asked *history.Query }

func (h askedHistory) Read(q history.Query) (*history.List, error) {
	*h.asked = q
	return &history.List{}, nil
}

// TestAFormerNamespaceIsSomebodyElses has a namespace deleted and made again, and reads as its new tenant what was there at
// versions of the former one's.
func TestAFormerNamespaceIsSomebodyElses(t *testing.T) {
	var asked history.Query
	ts := startServer(t, func(c *Config) { c.History = askedHistory{&asked} })
	c := ts.client(t)
	ctx := t.Context()
	create := func() *corev1.Namespace {
		return mustMake(t, c.CoreV1().Namespaces(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
	}
	create()
	secrets := c.CoreV1().Secrets("team")
	for i := range 3 {
		mustMake(
			t, secrets,
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", i)}, StringData: map[string]string{"pw": "of the former tenant"}},
		)
	}
	page, err := secrets.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	before := page.ResourceVersion
	follower, err := secrets.Watch(ctx, metav1.ListOptions{ResourceVersion: before}) // by somebody who may, all the time
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Stop()
	if err := secrets.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if e := <-follower.ResultChan(); e.Type != watch.Deleted {
			t.Errorf("who has watched before sees %v", e)
		}
	}
	emptied, err := secrets.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// As the daemon does once a namespace has been emptied.
	if err := ts.store.Update(ctx, func(tx *store.Tx) error {
		_, _, err := storage.Delete(tx, store.Key("namespaces", "", "team"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	ns := create()

	tenant := ts.limited(t, "role=submit&namespace=team")
	for _, version := range []string{before, emptied.ResourceVersion} {
		for name, o := range map[string]metav1.ListOptions{
			"a list":              {ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact},
			"one object":          {ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact, FieldSelector: "metadata.name=s0"},
			"the rest of a list":  {Continue: page.Continue},
			"another page's rest": {Continue: page.Continue, Limit: 1},
		} {
			if l, err := tenant.CoreV1().Secrets("team").List(ctx, o); statusCode(err) != http.StatusGone {
				t.Errorf("%s at %s: %v %v", name, version, l, err)
			}
		}
		for name, o := range map[string]metav1.ListOptions{
			"a watch":               {ResourceVersion: version},
			"a watch of one object": {ResourceVersion: version, FieldSelector: "metadata.name=s0"},
		} {
			w, err := tenant.CoreV1().Secrets("team").Watch(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			if e := <-w.ResultChan(); e.Type != watch.Error || e.Object.(*metav1.Status).Code != http.StatusGone {
				t.Errorf("%s at %s: %v", name, version, e)
			}
			w.Stop()
		}
	}
	// A namespace can be read at its own versions.
	if _, err := tenant.CoreV1().Secrets("team").List(
		ctx, metav1.ListOptions{ResourceVersion: ns.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact},
	); err != nil {
		t.Errorf("at the version of the namespace: %v", err)
	}
	// Who may read all namespaces can read what was in each.
	if l, err := c.CoreV1().Secrets("").List(
		ctx, metav1.ListOptions{ResourceVersion: before, ResourceVersionMatch: metav1.ResourceVersionMatchExact},
	); err != nil ||
		len(l.Items) != 3 {
		t.Errorf("of all namespaces: %v", err)
	}

	within := func(c *kubernetes.Clientset) history.Tenancy {
		t.Helper()
		asked = history.Query{}
		if err := c.RESTClient().Get().AbsPath(history.Path("team")).Do(context.Background()).Error(); err != nil {
			t.Fatal(err)
		}
		return asked.Within
	}
	if got := within(tenant); got.UID != string(ns.UID) || !got.Began.Equal(ns.CreationTimestamp.Time) {
		t.Errorf("the history of its tenant is that of %v, the namespace %v", got, ns.ObjectMeta)
	}
	if got := within(ts.client(t)); got != (history.Tenancy{}) {
		t.Errorf("that of an administrator is that of %v", got)
	}
	if got := within(ts.limited(t, "role=read")); got != (history.Tenancy{}) {
		t.Errorf("that of a reader of all namespaces is that of %v", got)
	}
	if err := ts.store.View(func(s *store.Snapshot) error {
		if n := s.Count("births."); n != 1 {
			return fmt.Errorf("%d namespaces are remembered", n)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func statusCode(err error) int32 {
	if s, ok := err.(interface{ Status() metav1.Status }); ok {
		return s.Status().Code
	}
	return 0
}

// The kubeconfig of a role in a namespace is nothing in a later one of that name, unless it was written before there was any.
func TestAKubeconfigIsForOneNamespace(t *testing.T) {
	ts := startServer(t)
	namespaces := ts.client(t).CoreV1().Namespaces()
	const role = "role=submit&namespace=team"
	before := ts.limited(t, role)
	for _, name := range []string{"team", "other"} {
		mustMake(t, namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	of := ts.limited(t, role)
	may := func(who string, c *kubernetes.Clientset, want bool) {
		t.Helper()
		if _, err := c.CoreV1().Secrets("team").List(t.Context(), metav1.ListOptions{}); (err == nil) != want {
			t.Errorf("%s: %v", who, err)
		}
		if canI(t, c, "create pods other") {
			t.Errorf("%s: it is for other namespaces too", who)
		}
	}
	may("the tenant", of, true)
	gone := func() {
		t.Helper()
		if err := ts.store.Update(t.Context(), func(tx *store.Tx) error { // as the daemon does once it has been emptied
			_, _, err := storage.Delete(tx, store.Key("namespaces", "", "team"))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	gone()
	may("the tenant of what is gone", of, false)
	mustMake(t, namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
	may("the former tenant", of, false)
	may("who had it before", before, true)
	may("the next tenant", ts.limited(t, role), true)
}

// Who watches a namespace, with the rights that they had in it, does not go on in a later one of its name.
func TestAWatchEndsWithItsNamespace(t *testing.T) {
	ts := startServer(t)
	c := ts.client(t)
	ctx := t.Context()
	create := func() {
		mustMake(t, c.CoreV1().Namespaces(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
	}
	secret := func(value string) {
		mustMake(t, c.CoreV1().Secrets("team"), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"pw": value}})
	}
	remove := func(resource, namespace, name string) {
		if err := ts.store.Update(ctx, func(tx *store.Tx) error {
			_, _, err := storage.Delete(tx, store.Key(resource, namespace, name))
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	follow := func(of interface {
		Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	}, selector string) watch.Interface {
		w, err := of.Watch(ctx, metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		return w
	}
	// sees reads as many events as are wanted, which end with Gone, or with the name of the last object.
	sees := func(what string, w watch.Interface, want ...string) {
		t.Helper()
		for _, want := range want {
			e := <-w.ResultChan()
			got := string(e.Type)
			switch o := e.Object.(type) {
			case *metav1.Status:
				got = fmt.Sprint(o.Code)
			case *corev1.Secret:
				got += " " + string(o.Data["pw"])
			}
			if got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		}
	}

	create()
	secret("former")
	all, one := follow(c.CoreV1().Secrets("team"), ""), follow(c.CoreV1().Secrets("team"), "metadata.name=s")
	namespace, everywhere := follow(c.CoreV1().Namespaces(), "metadata.name=team"), follow(c.CoreV1().Secrets(""), "metadata.name=s")
	sees("all of the namespace", all, "ADDED former")
	sees("one object", one, "ADDED former")
	sees("the namespace", namespace, "ADDED")
	sees("all namespaces", everywhere, "ADDED former")
	remove("secrets", "team", "s")
	remove("namespaces", "", "team")
	sees("all of the namespace", all, "DELETED former")
	between := follow(c.CoreV1().Secrets("team"), "")
	create()
	secret("later")
	sees("all of the namespace", all, "410")
	sees("one object", one, "DELETED former", "410")
	sees("the namespace", namespace, "DELETED", "410")
	sees("all namespaces", everywhere, "DELETED former", "ADDED later")
	sees("what is to come", between, "ADDED later")
}
