package authorization

import (
	"net/http"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/rbac"
	"github.com/jobd/jobd/api/roles"
)

// endpoint is what permissions are asked for: a resource, or a subresource.
type endpoint struct {
	schema.GroupResource // "pods/exec" for a part
	namespaced           bool
	verbs                []string // that it answers to
}

func newEndpoint(resource schema.GroupResource, whole, served rest.Storage) endpoint {
	scoper, ok := whole.(rest.Scoper)
	e := endpoint{GroupResource: resource, namespaced: ok && scoper.NamespaceScoped()}
	add := func(is bool, verb string) {
		if is {
			e.verbs = append(e.verbs, verb)
		}
	}
	connecter, connects := served.(rest.Connecter)
	connect := func(method string) bool { return connects && slices.Contains(connecter.ConnectMethods(), method) }
	_, is := served.(rest.Getter)
	_, optional := served.(rest.GetterWithOptions)
	add(is || optional || connect(http.MethodGet), "get")
	_, is = served.(rest.Lister)
	add(is, "list")
	_, is = served.(rest.Watcher)
	add(is, "watch")
	_, is = served.(rest.Creater)
	_, named := served.(rest.NamedCreater)
	add(is || named || connect(http.MethodPost), "create")
	_, is = served.(rest.Updater)
	add(is, "update")
	_, is = served.(rest.Patcher)
	add(is, "patch")
	_, is = served.(rest.GracefulDeleter)
	add(is, "delete")
	_, is = served.(rest.CollectionDeleter)
	add(is, "deletecollection")
	return e
}

// rulesOfRoles returns the rules that stand for each of jobd's roles in one namespace, found by asking the roles about
// what is served. Those of the role admin include the ClusterRole admin, which also covers what is not served: it may
// grant that to the accounts of manifests as they are written for clusters.
func rulesOfRoles(served []endpoint) (map[string][]rbacv1.PolicyRule, error) {
	const namespace = "any"
	rules := map[string][]rbacv1.PolicyRule{}
	for _, name := range []string{core.RoleRead, core.RoleSubmit, core.RoleAdmin} {
		of := roles.Role{Name: name, Namespace: namespace}
		var found []rbacv1.PolicyRule
		for _, e := range served {
			resource, subresource, _ := strings.Cut(e.Resource, "/")
			a := authorizer.AttributesRecord{
				ResourceRequest: true, APIGroup: e.Group, Resource: resource, Subresource: subresource,
			}
			if e.namespaced || resource == "namespaces" {
				a.Namespace = namespace
			}
			var verbs []string
			for _, a.Verb = range append(slices.Clone(e.verbs), "impersonate") {
				if of.Allows(a) && (a.Verb != "impersonate" || e.Resource == "serviceaccounts") {
					verbs = append(verbs, a.Verb)
				}
			}
			if len(verbs) == 0 {
				continue
			}
			i := slices.IndexFunc(found, func(r rbacv1.PolicyRule) bool {
				return r.APIGroups[0] == e.Group && slices.Equal(r.Verbs, verbs)
			})
			if i < 0 {
				found = append(found, rbacv1.PolicyRule{APIGroups: []string{e.Group}, Verbs: verbs})
				i = len(found) - 1
			}
			found[i].Resources = append(found[i].Resources, e.Resource)
		}
		rules[name] = found
	}
	admin, err := rbac.DefaultRules("admin")
	rules[core.RoleAdmin] = append(rules[core.RoleAdmin], admin...)
	return rules, err
}
