package server

import (
	"net/http"
	"strconv"

	"k8s.io/apiserver/pkg/audit"
	apifilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericserver "k8s.io/apiserver/pkg/server"
)

// The annotations of an event in the audit log that say which process has asked, on the socket.
const (
	auditPeerUID = "jobd.dev/peer-uid"
	auditPeerGID = "jobd.dev/peer-gid"
	auditPeerPID = "jobd.dev/peer-pid"
)

// audited records requests in the audit log, if there is one.
func audited(next http.Handler, c *genericserver.Config) http.Handler {
	if c.AuditBackend == nil {
		return next
	}
	next = apifilters.WithAudit(next, c.AuditBackend, c.AuditPolicyRuleEvaluator, c.LongRunningFunc)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p, ok := peerFrom(r.Context()); ok {
			audit.AddAuditAnnotations(r.Context(), auditPeerUID, strconv.FormatUint(uint64(p.UID), 10),
				auditPeerGID, strconv.FormatUint(uint64(p.GID), 10), auditPeerPID, strconv.Itoa(int(p.PID)))
		}
		next.ServeHTTP(w, r)
	})
}
