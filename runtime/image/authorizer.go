package image

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/auth"
	"golang.org/x/sync/semaphore"
)

// authorizer lets a registry that is asked by TLS name only realms that are. What it asks for a token is no request of a blob,
// whatever that is for and wherever the registry has it.
type authorizer struct {
	docker.Authorizer
	asking *semaphore.Weighted
}

// Authorize lets one request of a pull at a time ask for a token: containerd looks whether the token that another one is about
// to get has expired while that writes it.
func (a authorizer) Authorize(ctx context.Context, req *http.Request) error {
	err := a.asking.Acquire(ctx, 1)
	if err == nil {
		err = a.Authorizer.Authorize(forAnswers(ctx), req)
		a.asking.Release(1)
	}
	if err != nil {
		unsent(req)
	}
	return err
}

func (a authorizer) AddResponses(ctx context.Context, responses []*http.Response) error {
	last := responses[len(responses)-1]
	for _, c := range auth.ParseAuthHeader(last.Header) {
		realm, err := url.Parse(c.Parameters["realm"])
		if c.Scheme == auth.BearerAuth && last.Request.URL.Scheme == "https" && (err != nil || realm.Scheme != "https") {
			return fmt.Errorf("the registry wants a token from %q, which is not https as the registry itself is: %w",
				c.Parameters["realm"], docker.ErrInvalidAuthorization)
		}
	}
	return a.Authorizer.AddResponses(forAnswers(ctx), responses)
}
