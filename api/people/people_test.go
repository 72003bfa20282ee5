package people

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/hostpath"
	"github.com/jobd/jobd/api/runas"
	"github.com/jobd/jobd/internal/nss"
)

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		settings Settings
		wrong    string
	}{
		{Settings{{User: "alice"}, {Group: "lab", Quota: map[string]string{}}}, ""},
		{Settings{{User: "alice", HostPaths: []string{"/data", "/srv:ro"}, Quota: map[string]string{"pods": "5"}}}, ""},
		{Settings{{}}, "entry 1: must have either user or group"},
		{Settings{{User: "a"}, {User: "a", Group: "b"}}, "entry 2: must have either user or group"},
		{Settings{{User: "a", HostPaths: []string{"data"}}}, `a: host-paths: jobd.dev/allowed-host-paths: "data" is not an absolute path`},
		{Settings{{User: "a", HostPaths: []string{"/"}}}, "a path must be below /"},
		{Settings{{Group: "b", Quota: map[string]string{"pods": "many"}}}, `@b: quota: pods: "many" is no amount`},
		{Settings{{Group: "b", Quota: map[string]string{"pods": "-1"}}}, `@b: quota: pods: "-1" is no amount`},
		{Settings{{Group: "b", Quota: map[string]string{"pod": "1"}}}, "@b: quota: hard[pod]: "},
	} {
		if err := c.settings.Check(); (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%+v: %v, want %q", c.settings, err, c.wrong)
		}
	}
	var s Settings
	if err := s.Set("alice, @lab"); err != nil || !reflect.DeepEqual(s, Settings{{User: "alice"}, {Group: "lab"}}) || s.String() != "alice,@lab" {
		t.Errorf("%+v, %v", s, err)
	}
	if err := s.Set(s.String()); err != nil || len(s) != 2 {
		t.Errorf("a flag that is set again adds to itself: %v, %v", s, err)
	}
}

func TestOf(t *testing.T) {
	p := New(Settings{{User: "alice", Quota: map[string]string{"pods": "1"}}, {Group: "lab"}})
	now, asked := time.Now(), 0
	users := map[uint32]nss.User{
		0:    {Name: "root", Groups: []nss.Group{{GID: 0, Name: "root"}, {GID: 50, Name: "lab"}}},
		1000: {Name: "alice", UID: 1000, Groups: []nss.Group{{GID: 1000, Name: "alice"}, {GID: 50, Name: "lab"}, {GID: 60, Name: ""}}},
		1001: {Name: "bob", UID: 1001, Groups: []nss.Group{{GID: 50, Name: "lab"}}},
		1002: {Name: "carol", UID: 1002, Groups: []nss.Group{{GID: 1002, Name: "carol"}}},
	}
	p.known.Now = func() time.Time { return now }
	p.lookup = func(_ context.Context, uid uint32) (nss.User, error) {
		asked++
		if u, ok := users[uid]; ok {
			return u, nil
		}
		return nss.User{}, nss.UnknownError{UID: uid}
	}
	for uid, pods := range map[uint32]string{0: "none", 1000: "1", 1001: "500", 1002: "none"} {
		person, anew, err := p.Of(t.Context(), uid)
		if err != nil || !anew || person.HasNamespace() != (pods != "none") {
			t.Errorf("%d: %+v, %t, %v", uid, person, anew, err)
		}
		if person.HasNamespace() {
			if got := person.Quota()[corev1.ResourcePods]; got.String() != pods {
				t.Errorf("%d may have %s pods", uid, got.String())
			}
		}
	}
	alice, anew, err := p.Of(t.Context(), 1000)
	if err != nil || anew || asked != len(users) {
		t.Errorf("the machine is asked again: %t, %d, %v", anew, asked, err)
	}
	info := alice.Info("alice")
	if want := []string{"unix:alice", "unix:lab", "system:authenticated", "jobd:role:submit:alice"}; info.GetName() != "unix:alice" ||
		!reflect.DeepEqual(info.GetGroups(), want) {
		t.Errorf("alice is %+v", info)
	}
	if info := alice.Info(""); len(info.GetGroups()) != 3 || len(info.GetExtra()) != 0 {
		t.Errorf("without a namespace alice is %+v", info)
	}
	if _, _, err := p.Of(t.Context(), 4711); !errors.Is(err, nss.UnknownError{UID: 4711}) {
		t.Errorf("a user that there is not: %v", err)
	}
	// Who has left the group has no namespace any more.
	users[1001] = nss.User{Name: "bob", UID: 1001, Groups: []nss.Group{{GID: 1001, Name: "bob"}}}
	now = now.Add(nss.Fresh)
	if bob, _, err := p.Of(t.Context(), 1001); err != nil || bob.HasNamespace() {
		t.Errorf("bob has left: %+v, %v", bob, err)
	}
}

func TestNamespaceNames(t *testing.T) {
	for name, want := range map[string][]string{
		"alice":                  {"alice", "alice-7", "unix-7"},
		"default":                {"default-7", "unix-7"},
		"kube-system":            {"kube-system-7", "unix-7"},
		"John.Doe":               {"john-doe-7", "unix-7"},
		"_apt":                   {"apt-7", "unix-7"},
		"host$":                  {"host-7", "unix-7"},
		"жук":                    {"unix-7"},
		strings.Repeat("a", 70):  {strings.Repeat("a", 50) + "-7", "unix-7"},
		"LAB\\alice@example.com": {"lab-alice-example-com-7", "unix-7"},
	} {
		p := &Person{User: nss.User{Name: name, UID: 7}}
		if got := p.NamespaceNames(); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestFurnish(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(home, link); err != nil {
		t.Fatal(err)
	}
	me := uint32(os.Getuid())
	p := &Person{
		User:    nss.User{Name: "alice", UID: me, Home: link, Groups: []nss.Group{{GID: 5, Name: "alice"}, {GID: 6, Name: "lab"}}},
		setting: &Setting{User: "alice", HostPaths: []string{"/data:ro"}},
	}
	p.home, p.homeKnown = homeOf(&p.User), true
	ns := &corev1.Namespace{}
	if changed, err := p.Furnish(ns); err != nil || !changed {
		t.Fatalf("%t, %v", changed, err)
	}
	number := strconv.Itoa(int(me))
	want := map[string]string{runas.UserAnnotation: "alice", runas.Annotation: number + ":5,6", hostpath.Annotation: home + ",/data:ro"}
	if !reflect.DeepEqual(ns.Annotations, want) || ns.Labels["pod-security.kubernetes.io/enforce"] != "baseline" || !p.Owns(ns) {
		t.Errorf("it is %+v", ns)
	}
	if changed, err := p.Furnish(ns); err != nil || changed {
		t.Errorf("it is changed again: %t, %v", changed, err)
	}
	for what, ns := range map[string]*corev1.Namespace{
		"without annotations": {},
		"of the one before":   annotated("alice", "4711:5"),
		"of a longer number":  annotated("alice", number+"1:5"),
		"of another name":     annotated("alicia", number+":5"),
	} {
		if p.Owns(ns) {
			t.Errorf("alice owns a namespace %s", what)
		}
	}
	for what, dir := range map[string]string{"root": "/", "of nobody": "/nonexistent", "of another": "/proc/1", "none": "", "relative": "."} {
		u := p.User
		if u.Home = dir; what == "of another" {
			u.UID++
		}
		if got := homeOf(&u); got != "" {
			t.Errorf("the home %s is %q", what, got)
		}
	}
}

// A home that does not answer, as one on a server that is gone or on a file system that its user pretends to serve, holds up nothing but
// one thread, and takes no paths away.
func TestHomeThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, hang, looked := New(nil), make(chan struct{}), atomic.Int32{}
		u := &nss.User{Name: "alice", UID: 1000, Home: "/home/alice"}
		for range 3 {
			home, known := p.homeOf(u, func(*nss.User) string {
				looked.Add(1)
				<-hang
				return "/home/alice"
			})
			if home != "" || known {
				t.Errorf("it is %q, %t", home, known)
			}
		}
		if n := looked.Load(); n != 1 {
			t.Errorf("%d threads wait for it", n)
		}
		person := &Person{User: *u, setting: &Setting{User: "alice"}}
		person.Groups = []nss.Group{{GID: 1000}}
		ns := annotated("alice", "1000:1000,27")
		ns.Annotations[hostpath.Annotation] = "/home/alice"
		if changed, err := person.Furnish(ns); err != nil || !changed || ns.Annotations[hostpath.Annotation] != "/home/alice" ||
			ns.Annotations[runas.Annotation] != "1000:1000" {
			t.Errorf("%t, %v: %+v", changed, err, ns.Annotations)
		}
		close(hang)
		synctest.Wait()
		if home, known := p.homeOf(u, func(*nss.User) string { return "/srv" }); home != "/srv" || !known {
			t.Errorf("once it answers it is %q, %t", home, known)
		}
	})
}

func annotated(name, id string) *corev1.Namespace {
	ns := &corev1.Namespace{}
	ns.Annotations = map[string]string{runas.UserAnnotation: name, runas.Annotation: id}
	return ns
}
