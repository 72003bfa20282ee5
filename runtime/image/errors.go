package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/jobd/jobd/internal/files"
)

// classed gives an error a class without changing its message.
type classed struct {
	message string
	class   error
	cause   error
}

func (e *classed) Error() string   { return e.message }
func (e *classed) Unwrap() []error { return []error{e.class, e.cause} }

// pullError returns why a pull failed, with the registry's own message if it sent one.
func (i *Images) pullError(name string, err error, t *transfer) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("pull %s: %w", name, err)
	}
	class, message := classify(err)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.said != "" && class == errdefs.ErrNotFound {
		message = "not found: " + t.said
	}
	return &classed{"pull " + name + ": " + message, class, err}
}

// classify returns the class of an error of a pull, and its message in one line.
func classify(err error) (class error, message string) {
	message = strings.ReplaceAll(err.Error(), "\n", ": ")
	if status, ok := errors.AsType[remoteerrors.ErrUnexpectedStatus](err); ok {
		if said := words(status.Body); said != "" {
			message = fmt.Sprintf("the registry answers %s: %s", status.Status, said)
		}
		switch {
		case status.StatusCode == http.StatusNotFound:
			return errdefs.ErrNotFound, message
		case status.StatusCode == http.StatusUnauthorized:
			return errdefs.ErrUnauthenticated, message
		case status.StatusCode == http.StatusForbidden:
			return errdefs.ErrPermissionDenied, message
		case status.StatusCode == http.StatusTooManyRequests:
			return errdefs.ErrResourceExhausted, message
		case status.StatusCode >= 500:
			return errdefs.ErrUnavailable, message
		}
		return errdefs.ErrUnknown, message
	}
	for _, forbidden := range []error{errElsewhere, errLinkLocal} {
		if errors.Is(err, forbidden) {
			return errdefs.ErrPermissionDenied, forbidden.Error()
		}
	}
	if _, garbled := errors.AsType[*json.SyntaxError](err); garbled {
		message = "the registry or its server for tokens answers something that is not JSON"
	}
	_, silent := errors.AsType[*silence](err)
	_, network := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, docker.ErrInvalidAuthorization):
		return errdefs.ErrUnauthenticated, message
	case diskFull(err):
		return errdefs.ErrResourceExhausted, message
	case silent, network, errors.Is(err, io.ErrUnexpectedEOF):
		return errdefs.ErrUnavailable, message
	case errdefs.IsFailedPrecondition(err):
		// In a pull only the commit of a blob fails like this: its size or digest is not what was announced.
		return errdefs.ErrDataLoss, message
	}
	return errdefs.Resolve(err), message
}

// diskFull reports whether an error says that the disk is full. One of unpacking comes from containerd, which passes on only its
// message.
func diskFull(err error) bool {
	return files.Full(err) || err != nil && strings.Contains(err.Error(), ": "+syscall.ENOSPC.Error())
}

// platformError names the platforms that an image is for, if that is why nothing was found.
func (i *Images) platformError(ctx context.Context, target imagespec.Descriptor, err error) error {
	if !errdefs.IsNotFound(err) {
		return err
	}
	has, listErr := images.Platforms(ctx, i.client.ContentStore(), target)
	if listErr != nil || len(has) == 0 || slices.ContainsFunc(has, i.platform.Match) {
		return err
	}
	var list []string
	for _, p := range has {
		list = append(list, platforms.Format(p))
	}
	return fmt.Errorf("the image is for %s, this machine is %s: %w", strings.Join(list, ", "),
		platforms.Format(platforms.DefaultSpec()), errdefs.ErrNotFound)
}
