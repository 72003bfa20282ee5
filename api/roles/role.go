// Package roles says what each of jobd's own roles allows, which a client has by a group or a ServiceAccount by an annotation. It
// is a pure function of a role and a question; roles of the API, which bindings grant, are in api/rbac.
package roles

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/gpus"
)

// GroupPrefix is the prefix of the groups that carry a client's role: jobd:role:ROLE, or jobd:role:ROLE:NAMESPACE, behind which may
// stand the namespace's UID.
const GroupPrefix = "jobd:role:"

// AdminGroup may do everything, wherever it comes from. It is not system:masters, which would be above the limits
// on requests in flight.
const AdminGroup = "jobd:admins"

// Anything stands for all verbs, groups, resources or paths, in rules and in questions.
const Anything = "*"

// Role is what somebody may do, everywhere or in one namespace.
type Role struct{ Name, Namespace string }

// New checks a role that a person has asked for.
func New(name, namespace string) (Role, error) {
	if err := core.CheckRole(name); err != nil {
		return Role{}, err
	}
	if namespace != "" && len(utilvalidation.IsDNS1123Label(namespace)) > 0 {
		return Role{}, fmt.Errorf("%q cannot be the name of a namespace", namespace)
	}
	return Role{name, namespace}, nil
}

// Group returns the group that stands for the role in a client certificate.
func (r Role) Group() string {
	if r.Namespace == "" {
		return GroupPrefix + r.Name
	}
	return GroupPrefix + r.Name + ":" + r.Namespace
}

// GroupOf returns the group that stands for the role in the namespace with that UID alone, and not in a later one of its name, which may
// be somebody else's.
func (r Role) GroupOf(uid string) string {
	if r.Namespace == "" || uid == "" {
		return r.Group()
	}
	return r.Group() + ":" + uid
}

// OfGroup returns the role that a group stands for, and the UID of the namespace that it is for; empty: any of that name.
func OfGroup(group string) (r Role, uid string, ok bool) {
	said, ok := strings.CutPrefix(group, GroupPrefix)
	if !ok {
		return Role{}, "", false
	}
	name, rest, _ := strings.Cut(said, ":")
	namespace, uid, _ := strings.Cut(rest, ":")
	r, err := New(name, namespace)
	return r, uid, err == nil
}

// submitted lists the resources that the role submit may write.
var submitted = map[string][]string{
	"":                    {"pods", "configmaps", "secrets", "services", "events", "persistentvolumeclaims"},
	"batch":               {"jobs", "cronjobs"},
	"jobset.x-k8s.io":     {"jobsets"},
	"events.k8s.io":       {"events"},
	"coordination.k8s.io": {"leases"},
	"scheduling.k8s.io":   {"workloads", "podgroups"},
}

// Changing lists the verbs that change objects: not bind and escalate, by which roles are granted that somebody does not
// have.
var Changing = []string{"create", "update", "patch", "delete", "deletecollection"}

// Reaching lists the subresources that reach into the containers of a pod or the files of a claim, whatever the verb.
var Reaching = []string{"exec", "attach", "portforward", "proxy", "files"}

// Allows reports whether the role covers a request.
func (r Role) Allows(a authorizer.Attributes) bool {
	if !a.IsResourceRequest() {
		return r.Name == core.RoleAdmin && r.Namespace == "" || a.IsReadOnly() && a.GetPath() == "/metrics" &&
			r.Namespace == ""
	}
	if r.Namespace != "" && a.GetNamespace() != r.Namespace {
		return r.allowsBeside(a)
	}
	read := slices.Contains([]string{"get", "list", "watch"}, a.GetVerb()) &&
		!slices.Contains(Reaching, a.GetSubresource())
	switch {
	case r.Name == core.RoleAdmin:
		// Only those who may create namespaces may write the namespace itself, and what limits it. A question about all
		// resources includes them. What the role does not allow it cannot grant to others either.
		// Nor does a cluster's role of that name write the status of pods, which says what the node has found.
		return r.Namespace == "" || read || !slices.Contains([]string{"namespaces", "limitranges", "resourcequotas", Anything}, a.GetResource()) &&
			!(a.GetAPIGroup() == "" && a.GetResource() == "pods" && tells(a)) &&
			(a.GetAPIGroup() != rbacv1.GroupName || slices.Contains(Changing, a.GetVerb()))
	case r.Name == core.RoleSubmit && slices.Contains(submitted[a.GetAPIGroup()], a.GetResource()):
		return !tells(a) || read
	}
	hosts := a.GetAPIGroup() == gpus.Group && a.GetResource() == gpus.Processes // those of the host's own users
	return read && a.GetResource() != "secrets" && a.GetResource() != Anything && !hosts
}

// tells reports whether a request is about what is known of an object, which those who write it do not decide: its status, and the log of a pod.
func tells(a authorizer.Attributes) bool {
	return a.GetSubresource() == "status" || a.GetSubresource() == "log"
}

// allowsBeside reports whether a role in one namespace may see something that is in none.
func (r Role) allowsBeside(a authorizer.Attributes) bool {
	return a.GetNamespace() == "" && slices.Contains([]string{"get", "list", "watch"}, a.GetVerb()) &&
		slices.Contains([]string{"nodes", "priorityclasses", "runtimeclasses", "storageclasses", "customresourcedefinitions"},
			a.GetResource())
}

// Administers reports whether somebody may do everything, as every client of the socket may.
func Administers(who user.Info) bool {
	return InGroup(who, AdminGroup) || InGroup(who, user.SystemPrivilegedGroup)
}

// InGroup reports whether somebody is in a group.
func InGroup(who user.Info, group string) bool {
	if who == nil {
		return false
	}
	for _, g := range who.GetGroups() {
		if g == group {
			return true
		}
	}
	return false
}
