// Package people knows the users of this machine who reach jobd by the socket that is open to all: who they are to the API, and what
// the settings give them, which is a namespace of their own where pods run as themselves.
//
// In come the settings and the number that the kernel has for a client; out go a Person, and the namespace as it is to be. What they
// are written to is not this package's concern. Nothing is kept but, for some seconds, what the machine has said of a user.
package people

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/pod-security-admission/api"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/hostpath"
	"github.com/jobd/jobd/api/roles"
	"github.com/jobd/jobd/api/runas"
	"github.com/jobd/jobd/internal/nss"
	"github.com/jobd/jobd/internal/outside"
)

// Prefix begins the names that users and groups of this machine have to the API.
const Prefix = "unix:"

// QuotaName is the name of the ResourceQuota in the namespace of a person.
const QuotaName = "jobd-user"

// homePatience is how long a home may take to be found: it may be on a server that does not answer, or on a file system that a process
// of its user is to answer for.
const homePatience = 5 * time.Second

// People finds out who somebody is. It is made by New.
type People struct {
	settings Settings
	lookup   func(context.Context, uint32) (nss.User, error)
	known    *nss.Cache[Person]
	homes    singleflight.Group
}

// New makes one. The settings have been checked.
func New(s Settings) *People {
	p := &People{settings: s, lookup: nss.Lookup}
	p.known = nss.NewCache(p.ask)
	return p
}

// Person is a user of this machine.
type Person struct {
	nss.User
	setting *Setting // nil: none is meant for this user
	// home is the path of the home without symlinks; empty if it is none that pods may mount. It is not known if it did not answer.
	home      string
	homeKnown bool
}

// Of returns who a user is, and whether that was found out just now.
func (p *People) Of(ctx context.Context, uid uint32) (found Person, now bool, err error) {
	return p.known.Of(ctx, uid)
}

func (p *People) ask(ctx context.Context, uid uint32) (Person, error) {
	u, err := p.lookup(ctx, uid)
	if err != nil {
		return Person{}, err
	}
	person := Person{User: u, setting: p.settings.of(&u)}
	if person.setting != nil {
		person.home, person.homeKnown = p.homeOf(&u, homeOf)
	}
	return person, nil
}

// homeOf finds the home of a user, if that does not take too long. What hangs is waited for by one thread, however often it is asked for.
func (p *People) homeOf(u *nss.User, find func(*nss.User) string) (home string, known bool) {
	looking := p.homes.DoChan(strconv.FormatUint(uint64(u.UID), 10)+":"+u.Home, func() (any, error) { return find(u), nil })
	timeout := time.NewTimer(homePatience)
	defer timeout.Stop()
	select {
	case r := <-looking:
		return r.Val.(string), true
	case <-timeout.C:
		return "", false
	}
}

// of returns the setting that is meant for a user; nil for none. Root has a socket of its own, and its pods could not be kept from
// anything.
func (s Settings) of(u *nss.User) *Setting {
	if u.UID == 0 {
		return nil
	}
	for i := range s {
		of := &s[i]
		if of.User != "" && of.User == u.Name ||
			of.Group != "" && slices.ContainsFunc(u.Groups, func(g nss.Group) bool { return g.Name == of.Group }) {
			return of
		}
	}
	return nil
}

// HasNamespace reports whether the settings give somebody a namespace.
func (p *Person) HasNamespace() bool { return p.setting != nil }

// Info returns who somebody is to the API. With a namespace, which is empty for none, comes jobd's role submit in it.
func (p *Person) Info(namespace string) user.Info {
	info := &user.DefaultInfo{Name: Prefix + p.Name, UID: strconv.FormatUint(uint64(p.UID), 10)}
	for _, g := range p.Groups {
		if g.Name != "" {
			info.Groups = append(info.Groups, Prefix+g.Name)
		}
	}
	info.Groups = append(info.Groups, user.AllAuthenticated)
	if namespace != "" {
		info.Groups = append(info.Groups, roles.Role{Name: core.RoleSubmit, Namespace: namespace}.Group())
		info.Extra = map[string][]string{runas.NamespaceExtra: {namespace}}
	}
	return info
}

// identity is as whom somebody's pods run.
func (p *Person) identity() runas.Identity {
	id := runas.Identity{UID: p.UID}
	for _, g := range p.Groups {
		id.Groups = append(id.Groups, g.GID)
	}
	return id
}

var noLabel = regexp.MustCompile("[^a-z0-9]+")

// NamespaceNames returns what somebody's namespace may be called, the best name first: their own, unless it is no name of a namespace
// or one of the system's, then with the number behind it. Another namespace may have any of them.
func (p *Person) NamespaceNames() []string {
	var names []string
	if len(utilvalidation.IsDNS1123Label(p.Name)) == 0 && p.Name != metav1.NamespaceDefault && !strings.HasPrefix(p.Name, "kube-") {
		names = append(names, p.Name)
	}
	number := strconv.FormatUint(uint64(p.UID), 10)
	plain := noLabel.ReplaceAllString(strings.ToLower(p.Name), "-")
	if plain = strings.Trim(plain[:min(len(plain), 50)], "-"); plain != "" {
		names = append(names, plain+"-"+number)
	}
	return append(names, "unix-"+number)
}

// Owns reports whether a namespace is somebody's: it has their name and number. A user who comes after one of the same name has
// another number, and gets nothing of what that one had.
func (p *Person) Owns(ns *corev1.Namespace) bool {
	number, _, _ := strings.Cut(ns.Annotations[runas.Annotation], ":")
	return ns.Annotations[runas.UserAnnotation] == p.Name && number == strconv.FormatUint(uint64(p.UID), 10)
}

// Furnish makes a namespace that of a person, and reports whether it was not as it is to be. It looks at nothing but the two: it is
// called in transactions, and a home may hang. Where that was not found, the paths stay as they are.
func (p *Person) Furnish(ns *corev1.Namespace) (changed bool, err error) {
	paths, err := p.setting.hostPaths(p.home)
	if err != nil {
		return false, err
	}
	if before, ok := ns.Annotations[hostpath.Annotation]; ok && !p.homeKnown {
		paths = before
	}
	changed = set(&ns.Labels, map[string]string{api.EnforceLevelLabel: string(api.LevelBaseline)})
	return set(&ns.Annotations, map[string]string{
		runas.UserAnnotation: p.Name, runas.Annotation: p.identity().String(), hostpath.Annotation: paths,
	}) || changed, nil
}

func set(m *map[string]string, wanted map[string]string) (changed bool) {
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if have, ok := (*m)[key]; ok && have == wanted[key] {
			continue
		}
		if *m == nil {
			*m = map[string]string{}
		}
		(*m)[key], changed = wanted[key], true
	}
	return changed
}

// homeOf returns the home of a user as a path without symlinks; empty if it is none that the user owns: users of services share /.
func homeOf(u *nss.User) string {
	if !filepath.IsAbs(u.Home) {
		return ""
	}
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(root)
	home, err := outside.Open(root, "."+u.Home, unix.RESOLVE_IN_ROOT)
	if err != nil {
		return ""
	}
	defer unix.Close(home)
	var is unix.Stat_t
	if err := unix.Fstat(home, &is); err != nil || is.Mode&unix.S_IFMT != unix.S_IFDIR || is.Uid != u.UID {
		return ""
	}
	real, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(home))
	if err != nil || strings.ContainsAny(real, ",\n") || strings.HasSuffix(real, ":ro") || real == "/" {
		return ""
	}
	return real
}

// Quota returns what the namespace of a person has at most; nil for no limits.
func (p *Person) Quota() corev1.ResourceList {
	hard, _ := p.setting.quota() // which was checked
	return hard
}

// String names a person in messages.
func (p *Person) String() string { return fmt.Sprintf("%s%s (%d)", Prefix, p.Name, p.UID) }
