package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/component-helpers/auth/rbac/validation"
)

const (
	// bootstrapLabel marks what Defaults returns.
	bootstrapLabel, bootstrapValue = "kubernetes.io/bootstrapping", "rbac-defaults"
	aggregateTo                    = "rbac.authorization.k8s.io/aggregate-to-"
)

var (
	reads  = []string{"get", "list", "watch"}
	writes = []string{"create", "update", "patch", "delete", "deletecollection"}
	both   = append(append([]string{}, reads...), writes...)
)

// on returns a rule for resources of some groups.
func on(verbs, groups []string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: groups, Resources: resources}
}

func in(groups ...string) []string { return groups }

// viewRules lets see what is in a namespace, except for Secrets and who may do what, as the role view of a cluster does.
func viewRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		on(reads, in(""), "bindings", "configmaps", "endpoints", "limitranges", "namespaces", "namespaces/status",
			"persistentvolumeclaims", "persistentvolumeclaims/status", "pods", "pods/log", "pods/status",
			"replicationcontrollers", "replicationcontrollers/scale", "replicationcontrollers/status", "resourcequotas",
			"resourcequotas/status", "serviceaccounts", "services", "services/status"),
		on(reads, in("", "events.k8s.io"), "events"),
		on(reads, in("discovery.k8s.io"), "endpointslices"),
		on(reads, in("apps"), "controllerrevisions", "daemonsets", "daemonsets/status", "deployments", "deployments/scale",
			"deployments/status", "replicasets", "replicasets/scale", "replicasets/status", "statefulsets",
			"statefulsets/scale", "statefulsets/status"),
		on(reads, in("autoscaling"), "horizontalpodautoscalers", "horizontalpodautoscalers/status"),
		on(reads, in("batch"), "cronjobs", "cronjobs/status", "jobs", "jobs/status"),
		on(reads, in("policy"), "poddisruptionbudgets", "poddisruptionbudgets/status"),
		on(reads, in("networking.k8s.io"), "ingresses", "ingresses/status", "networkpolicies"),
		on(reads, in("scheduling.k8s.io"), "podgroups", "podgroups/status", "workloads"),
	}
}

// editRules lets change what is in a namespace, except for who may do what. It includes Secrets and what reaches into
// containers.
func editRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		on(reads, in(""), "pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"),
		on([]string{"impersonate"}, in(""), "serviceaccounts"),
		on(writes, in(""), "configmaps", "persistentvolumeclaims", "pods", "pods/attach", "pods/exec", "pods/portforward",
			"pods/proxy", "replicationcontrollers", "replicationcontrollers/scale", "secrets", "serviceaccounts", "services",
			"services/proxy"),
		on([]string{"create"}, in(""), "pods/eviction", "serviceaccounts/token"),
		on(writes, in("", "events.k8s.io"), "events"),
		on(writes, in("apps"), "daemonsets", "deployments", "deployments/rollback", "deployments/scale", "replicasets",
			"replicasets/scale", "statefulsets", "statefulsets/scale"),
		on(writes, in("autoscaling"), "horizontalpodautoscalers"),
		on(writes, in("batch"), "cronjobs", "jobs"),
		on(writes, in("policy"), "poddisruptionbudgets"),
		on(writes, in("networking.k8s.io"), "ingresses", "networkpolicies"),
		on(both, in("coordination.k8s.io"), "leases"),
		on(writes, in("scheduling.k8s.io"), "podgroups", "workloads"),
	}
}

// Defaults returns the ClusterRoles and ClusterRoleBindings that there are from the first start on: those of a cluster
// that people and tools refer to, and those of jobd itself, "jobd:" and a name of own each. admins is the group of jobd's
// administrators. The rules of aggregated roles are set.
func Defaults(
	own map[string][]rbacv1.PolicyRule, admins string,
) (roles []*rbacv1.ClusterRole, bindings []*rbacv1.ClusterRoleBinding, err error) {
	add := func(name string, aggregated []string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
		r := &rbacv1.ClusterRole{ObjectMeta: bootstrapped(name), Rules: rules}
		for _, to := range aggregated {
			r.Labels[aggregateTo+to] = "true"
		}
		roles = append(roles, r)
		return r
	}
	gather := func(r *rbacv1.ClusterRole) {
		r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
			{MatchLabels: map[string]string{aggregateTo + r.Name: "true"}},
		}}
	}
	add("cluster-admin", nil, Everything...)
	gather(add("admin", nil))
	gather(add("edit", []string{"admin"}))
	gather(add("view", []string{"edit"}))
	add("system:aggregate-to-admin", []string{"admin"},
		on([]string{"create"}, in("authorization.k8s.io"), "localsubjectaccessreviews"),
		on(both, in(rbacv1.GroupName), "rolebindings", "roles"))
	add("system:aggregate-to-edit", []string{"edit"}, editRules()...)
	add("system:aggregate-to-view", []string{"view"}, viewRules()...)
	add("system:aggregated-metrics-reader", []string{"view", "edit", "admin"},
		on(reads, in("metrics.k8s.io"), "nodes", "pods"))
	add("jobd:aggregate-to-edit", []string{"edit"},
		on([]string{"create"}, in("batch"), "jobs/move", "jobs/retry"),
		on(writes, in("jobset.x-k8s.io"), "jobsets"),
		on([]string{"get", "update"}, in(""), "persistentvolumeclaims/files", "pods/files"))
	add("jobd:aggregate-to-view", []string{"view"},
		on([]string{"get"}, in("batch"), "cronjobs/why", "jobs/log", "jobs/picture", "jobs/why"),
		on([]string{"get"}, in(""), "nodes/usage", "pods/why"),
		on(reads, in("history.jobd.dev"), "jobs"),
		on(reads, in("jobset.x-k8s.io"), "jobsets", "jobsets/status"),
		on([]string{"get"}, in("jobset.x-k8s.io"), "jobsets/picture", "jobsets/why"),
		on([]string{"list"}, in("shares.jobd.dev"), "shares"))
	managed := []string{"create", "delete", "get", "list", "patch", "update", "watch"}
	// A manager in its default configuration is connected only if it can watch all kinds that it hands out, though here it hands out Jobs alone.
	add("jobd:multikueue-manager", nil,
		on(managed, in("batch"), "jobs"),
		on(managed, in("kueue.x-k8s.io"), "workloads"),
		on([]string{"get", "patch", "update"}, in("kueue.x-k8s.io"), "workloads/status"),
		on([]string{"watch"}, in(""), "pods"),
		on([]string{"watch"}, in("apps"), "statefulsets"),
		on(reads, in("jobset.x-k8s.io"), "jobsets"),
		on(reads, in("kubeflow.org", "leaderworkerset.x-k8s.io", "ray.io", "trainer.kubeflow.org", "workload.codeflare.dev"), "*"))
	add("jobd:forwarder", nil,
		on([]string{"get", "list", "patch", "watch"}, in("batch"), "jobs"),
		on([]string{"update"}, in("batch"), "jobs/status"),
		on([]string{"create", "delete", "get", "list"}, in(""), "pods"),
		on([]string{"update"}, in(""), "pods/status"),
		on([]string{"create"}, in(""), "pods/log"),
		on([]string{"create", "patch"}, in(""), "events"),
		on([]string{"get"}, in(""), "configmaps", "namespaces"),
		on([]string{"list"}, in(""), "nodes"), // to know this machine from its copies
		on([]string{"create", "patch"}, in("coordination.k8s.io"), "leases"),
		paths("/jobd/v1/images")) // to know which no registry has
	add("system:basic-user", nil,
		on([]string{"create"}, in("authentication.k8s.io"), "selfsubjectreviews"),
		on([]string{"create"}, in("authorization.k8s.io"), "selfsubjectaccessreviews", "selfsubjectrulesreviews"))
	add("system:discovery", nil, paths("/livez", "/readyz", "/version", "/api", "/api/*", "/apis", "/apis/*", "/openapi",
		"/openapi/*"))
	add("system:public-info-viewer", nil, paths("/livez", "/readyz", "/version"))
	add("system:monitoring", nil, paths("/metrics", "/livez", "/livez/*", "/readyz", "/readyz/*"))
	add("system:auth-delegator", nil,
		on([]string{"create"}, in("authentication.k8s.io"), "tokenreviews"),
		on([]string{"create"}, in("authorization.k8s.io"), "subjectaccessreviews"))
	add("system:service-account-issuer-discovery", nil, paths("/.well-known/openid-configuration",
		"/.well-known/openid-configuration/", "/openid/v1/jwks", "/openid/v1/jwks/"))
	for name, rules := range own {
		add("jobd:"+name, nil, rules...)
	}

	bind := func(role string, groups ...string) {
		b := &rbacv1.ClusterRoleBinding{
			ObjectMeta: bootstrapped(role),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}
		for _, g := range groups {
			b.Subjects = append(b.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: g})
		}
		bindings = append(bindings, b)
	}
	bind("cluster-admin", user.SystemPrivilegedGroup, admins)
	bind("system:basic-user", user.AllAuthenticated)
	bind("system:discovery", user.AllAuthenticated)
	bind("system:public-info-viewer", user.AllAuthenticated, user.AllUnauthenticated)
	bind("system:service-account-issuer-discovery", serviceaccount.AllServiceAccountsGroup)

	gathered, err := Aggregate(roles)
	for _, role := range gathered {
		for i := range roles {
			if roles[i].Name == role.Name {
				roles[i] = role
			}
		}
	}
	return roles, bindings, err
}

// DefaultRules returns the rules of one of the default ClusterRoles.
func DefaultRules(name string) ([]rbacv1.PolicyRule, error) {
	roles, _, err := Defaults(nil, "")
	for _, role := range roles {
		if role.Name == name && err == nil {
			return role.Rules, nil
		}
	}
	return nil, err
}

func paths(urls ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: urls}
}

func bootstrapped(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Labels: map[string]string{bootstrapLabel: bootstrapValue},
		Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
	}
}

// GrantsToAll reports whether a binding is one of those of Defaults that everybody has, or every ServiceAccount, which grant
// no more than questions about oneself, what the server serves, and what verifies tokens.
func GrantsToAll(b *Binding) bool {
	switch b.Name {
	case "system:basic-user", "system:discovery", "system:public-info-viewer", "system:service-account-issuer-discovery":
		return b.Namespace == "" && b.Role.Name == b.Name
	}
	return false
}

// Reconcile adds what a stored role lacks of a default one, unless its annotation autoupdate says "false", and reports
// whether there was something. What has been added to the role stays.
func Reconcile(stored, wanted *rbacv1.ClusterRole) (changed bool) {
	if !autoUpdated(stored.Annotations) {
		return false
	}
	changed = addMissing(&stored.Labels, wanted.Labels)
	if wanted.AggregationRule != nil {
		if stored.AggregationRule == nil {
			stored.AggregationRule, changed = wanted.AggregationRule.DeepCopy(), true
		}
		return changed // the rules follow from it
	}
	if ok, missing := validation.Covers(stored.Rules, wanted.Rules); !ok {
		stored.Rules, changed = append(stored.Rules, missing...), true
	}
	return changed
}

// ReconcileBinding adds the subjects that a stored binding lacks of a default one, unless its annotation autoupdate says
// "false", and reports whether there were some.
func ReconcileBinding(stored, wanted *rbacv1.ClusterRoleBinding) (changed bool) {
	if !autoUpdated(stored.Annotations) || stored.RoleRef != wanted.RoleRef {
		return false
	}
	for _, s := range wanted.Subjects {
		if !containsSubject(stored.Subjects, s) {
			stored.Subjects, changed = append(stored.Subjects, s), true
		}
	}
	return changed
}

func containsSubject(subjects []rbacv1.Subject, s rbacv1.Subject) bool {
	for _, other := range subjects {
		if other == s {
			return true
		}
	}
	return false
}

func autoUpdated(annotations map[string]string) bool {
	return annotations[rbacv1.AutoUpdateAnnotationKey] != "false"
}

func addMissing(labels *map[string]string, wanted map[string]string) (changed bool) {
	for key, value := range wanted {
		if (*labels)[key] != value {
			if *labels == nil {
				*labels = map[string]string{}
			}
			(*labels)[key], changed = value, true
		}
	}
	return changed
}
