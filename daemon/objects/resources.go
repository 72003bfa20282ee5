package objects

import (
	"strings"
	"sync"

	policyv1 "k8s.io/api/policy/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/jobd/jobd/api/kind"
	"github.com/jobd/jobd/api/scheme"
)

// Resources whose objects the daemon itself reads and writes; they are the first part of the keys.
const (
	ConfigMaps      = "configmaps"
	Claims          = "persistentvolumeclaims"
	CronJobs        = "cronjobs.batch"
	Events          = "events"
	Jobs            = "jobs.batch"
	JobSets         = "jobsets.jobset.x-k8s.io"
	KueueWorkloads  = "workloads.kueue.x-k8s.io"
	Leases          = "leases.coordination.k8s.io"
	Namespaces      = "namespaces"
	Nodes           = "nodes"
	Budgets         = "poddisruptionbudgets." + policyv1.GroupName
	PodGroups       = "podgroups." + schedulingv1beta1.GroupName
	Pods            = "pods"
	Secrets         = "secrets"
	ServiceAccounts = "serviceaccounts"
	Services        = "services"
	StorageClasses  = "storageclasses." + storagev1.GroupName
	Volumes         = "persistentvolumes"
	Workloads       = "workloads." + schedulingv1beta1.GroupName
	// Provisionings hold what volumes are being created, so that none is forgotten. Clients do not see them.
	Provisionings = "provisionings.jobd.dev"
	// Memories hold what decisions need to know about pods of a Job that are gone. Clients do not see them.
	Memories = "memories.jobd.dev"
	// Schedules hold since when the schedules of CronJobs are what they are. Clients do not see them.
	Schedules = "schedules.jobd.dev"
	// Places hold which Jobs have a place in a concurrency group, by their UIDs. Clients do not see them.
	Places = "places.jobd.dev"
	// Usages hold what ended containers of a pod have used, Accounts what ended pods of a Job have. Clients do not see
	// them.
	Usages   = "usages.jobd.dev"
	Accounts = "accounts.jobd.dev"
	// Notices hold what receivers are to be told, by receiver and in order, NoticeMemories what notices depend on of CronJobs
	// and of Jobs of one name, NoticeMarks what was told of a Job that has not ended, by its UID, and NoticeStandings how each
	// receiver has fared. Clients do not see them.
	Notices         = "notices.jobd.dev"
	NoticeMemories  = "noticememories.jobd.dev"
	NoticeMarks     = "noticemarks.jobd.dev"
	NoticeStandings = "noticestandings.jobd.dev"
	// Shares hold what everybody has used of the machine. Clients do not see them.
	Shares = "usedshares.jobd.dev"
)

// Served returns the kinds of the API by their resource, for code that handles objects of any kind.
var Served = sync.OnceValue(func() map[string]*kind.Kind {
	kinds := map[string]*kind.Kind{}
	for _, k := range scheme.Kinds() {
		kinds[k.GroupResource().String()] = k
	}
	return kinds
})

// ResourceOf returns the resource in a key.
func ResourceOf(key string) string {
	resource, _, _ := strings.Cut(key, "/")
	return resource
}

// NameOf returns the namespace and name in a key. The namespace is empty for objects without one.
func NameOf(key string) (namespace, name string) {
	_, rest, _ := strings.Cut(key, "/")
	if namespace, name, ok := strings.Cut(rest, "/"); ok {
		return namespace, name
	}
	return "", rest
}
