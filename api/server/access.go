package server

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	requestx509 "k8s.io/apiserver/pkg/authentication/request/x509"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/jobd/jobd/api/conns"
	"github.com/jobd/jobd/api/flowcontrol"
	"github.com/jobd/jobd/api/roles"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/tokens"
)

// public lists the paths for which nobody is asked for credentials, on TLS either. What anybody may do there, the
// ClusterRole system:public-info-viewer says.
var public = []string{"/livez", "/readyz", "/version"}

// access authenticates the client of a request, and refuses clients that it does not know.
type access func(next http.Handler) http.Handler

// identifyPeer makes the process at the other end of the socket the user of a request. It may do everything: the mode
// of the socket has let it in.
func (s *Server) identifyPeer(next http.Handler) http.Handler {
	next = s.authorized(next, s.access.Authorize)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := "jobd:local"
		if p, ok := conns.PeerFrom(r.Context()); ok {
			name = fmt.Sprintf("jobd:uid:%d", p.UID)
		}
		who := &user.DefaultInfo{Name: name, Groups: []string{roles.AdminGroup, user.AllAuthenticated}}
		next.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), who)))
	})
}

// authorized asks an authorizer what a client may do, and lets a client with that permission impersonate another user
// (kubectl --as). The audit log records both users.
func (s *Server) authorized(next http.Handler, allowed authorizer.AuthorizerFunc) http.Handler {
	next = apifilters.WithAuthorization(next, allowed, scheme.Answers)
	next = impersonation.WithImpersonation(next, allowed, scheme.Answers)
	next = s.audited(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who, ok := request.UserFrom(r.Context()); ok {
			ctx := flowcontrol.WithClient(r.Context(), who)
			if r.Header.Get(authenticationv1.ImpersonateUserHeader) != "" {
				ctx = context.WithValue(ctx, actorKey{}, who.GetName())
			}
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// actorKey is the context key of the client that impersonates another user.
type actorKey struct{}

// authenticate returns an access that authenticates clients by the given authenticators and authorizes their requests.
func (s *Server) authenticate(known ...authenticator.Request) access {
	var open []apiserver.AnonymousAuthCondition
	for _, path := range public {
		open = append(open, apiserver.AnonymousAuthCondition{Path: path})
	}
	// Wrong credentials are refused, even where none are needed.
	who := union.NewFailOnError(group.NewAuthenticatedGroupAdder(union.New(known...)), anonymous.NewAuthenticator(open),
		s.access.AnonymousWhereBound())
	return func(next http.Handler) http.Handler {
		backend, policy := s.audit()
		failed := apifilters.WithFailedAuthenticationAudit(apifilters.Unauthorized(scheme.Answers), backend, policy)
		return apifilters.WithAuthentication(s.authorized(next, s.access.Authorize), who, failed, nil, nil)
	}
}

// everybody returns the authenticators for all clients: the administrator, those that have a certificate, and
// ServiceAccounts.
func (s *Server) everybody() []authenticator.Request {
	a := s.config.Authority
	if a == nil {
		return s.accounts()
	}
	certificates := requestx509.NewDynamic(func() (x509.VerifyOptions, bool) {
		return x509.VerifyOptions{Roots: a.Roots(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, true
	}, requestx509.CommonNameUserConversion)
	return []authenticator.Request{certificates, bearertoken.New(s.bearers())}
}

// bearers authenticates all that have a token: the administrator, whose token is for this API alone, and ServiceAccounts.
func (s *Server) bearers() authenticator.Token {
	var known []authenticator.Token
	if a := s.config.Authority; a != nil {
		known = append(known, authenticator.WrapAudienceAgnosticToken(
			authenticator.Audiences{tokens.Audience}, authenticator.TokenFunc(a.AuthenticateToken)))
	}
	if s.config.Tokens != nil {
		known = append(known, s.config.Tokens)
	}
	return tokenunion.New(known...)
}

// accounts returns the authenticators for ServiceAccounts, by their tokens, and for nobody else.
func (s *Server) accounts() []authenticator.Request {
	if s.config.Tokens == nil {
		return nil
	}
	return []authenticator.Request{bearertoken.New(s.config.Tokens)}
}
