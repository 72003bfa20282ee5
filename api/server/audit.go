package server

import (
	"net/http"
	"strconv"

	"k8s.io/apiserver/pkg/audit"
	apifilters "k8s.io/apiserver/pkg/endpoints/filters"

	"github.com/jobd/jobd/api/conns"
)

// The annotations of an event in the audit log that say which process has asked, on the socket.
const (
	auditPeerUID = "jobd.dev/peer-uid"
	auditPeerGID = "jobd.dev/peer-gid"
	auditPeerPID = "jobd.dev/peer-pid"
)

// audited records requests in the audit log, if there is one.
func (s *Server) audited(next http.Handler) http.Handler {
	backend, policy := s.audit()
	if backend == nil {
		return next
	}
	next = apifilters.WithAudit(next, backend, policy, longRunning)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p, ok := conns.PeerFrom(r.Context()); ok {
			audit.AddAuditAnnotations(r.Context(), auditPeerUID, strconv.FormatUint(uint64(p.UID), 10),
				auditPeerGID, strconv.FormatUint(uint64(p.GID), 10), auditPeerPID, strconv.Itoa(int(p.PID)))
		}
		next.ServeHTTP(w, r)
	})
}

// audit returns where requests are recorded, and which. Both are nil without an audit log.
func (s *Server) audit() (audit.Sink, audit.PolicyRuleEvaluator) {
	if s.config.Audit == nil {
		return nil, nil
	}
	return s.config.Audit.Backend, s.config.Audit.Policy
}
