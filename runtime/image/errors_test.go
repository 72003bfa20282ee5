package image

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"
)

func TestClassify(t *testing.T) {
	status := func(code int, body string) error {
		return fmt.Errorf("x: %w", remoteerrors.ErrUnexpectedStatus{StatusCode: code, Status: fmt.Sprint(code), Body: []byte(body)})
	}
	for _, c := range []struct {
		rule string
		err  error
		want error
	}{
		{"401 is unauthenticated", status(401, ""), errdefs.ErrUnauthenticated},
		{"403 is denied", status(403, ""), errdefs.ErrPermissionDenied},
		{"404 is not found", status(404, ""), errdefs.ErrNotFound},
		{"429 is exhausted", status(429, ""), errdefs.ErrResourceExhausted},
		{"500 is unavailable", status(500, ""), errdefs.ErrUnavailable},
		{"an odd status is unknown", status(418, ""), errdefs.ErrUnknown},
		{"a registry that broke off is unavailable", fmt.Errorf("x: %w", io.ErrUnexpectedEOF), errdefs.ErrUnavailable},
		{"a silent registry is unavailable", &silence{errors.New("nothing")}, errdefs.ErrUnavailable},
		{"a full disk is exhausted", fmt.Errorf("write: %w", syscall.ENOSPC), errdefs.ErrResourceExhausted},
		{"a wrong digest is data loss", fmt.Errorf("commit: %w", errdefs.ErrFailedPrecondition), errdefs.ErrDataLoss},
	} {
		t.Run(c.rule, func(t *testing.T) {
			if class, message := classify(c.err); !errors.Is(class, c.want) || message == "" {
				t.Errorf("got %v, %q", class, message)
			}
		})
	}
	if _, m := classify(status(403, `{"errors":[{"code":"DENIED","message":"not for you"}]}`)); m != "the registry answers 403: not for you" {
		t.Errorf("the registry's words are lost: %q", m)
	}
}

func FuzzWords(f *testing.F) {
	f.Add([]byte(`{"errors":[{"code":"DENIED","message":"no","detail":{}}]}`))
	f.Add([]byte(`{"errors":[null,{"code":"A_B"}]}`))
	f.Fuzz(func(_ *testing.T, raw []byte) { words(raw) })
}
