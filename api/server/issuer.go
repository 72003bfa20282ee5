package server

import (
	"github.com/emicklei/go-restful/v3"

	"github.com/jobd/jobd/api/tokens"
)

// serveIssuer serves what others verify tokens of ServiceAccounts with, without asking for each (ServiceAccountIssuerDiscovery).
// Whoever verifies so does not learn that the pod of a token is gone; a TokenReview says that.
func (s *Server) serveIssuer() error {
	if s.config.Tokens == nil {
		return nil
	}
	about, keys, err := s.config.Tokens.Discovery()
	if err != nil {
		return err
	}
	serve := func(path, mime, operation, doc string, document []byte) {
		service := new(restful.WebService)
		service.Path(path).Doc(doc).Produces(mime)
		service.Route(service.GET("").Doc(doc).Operation(operation).Writes("").
			To(func(_ *restful.Request, w *restful.Response) {
				w.Header().Set("Content-Type", mime)
				w.Header().Set("Cache-Control", "public, max-age=3600")
				_, _ = w.Write(document)
			}))
		s.groups.container.Add(service)
	}
	serve(tokens.ConfigurationPath, restful.MIME_JSON, "getServiceAccountIssuerOpenIDConfiguration",
		"how tokens of ServiceAccounts are verified (OpenID Connect Discovery)", about)
	serve(tokens.KeysPath, "application/jwk-set+json", "getServiceAccountIssuerOpenIDKeyset",
		"the public keys of tokens of ServiceAccounts, as a JSON Web Key Set", keys)
	return nil
}
