package about

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/client-go/rest"
)

// answer decodes a server's answer to a request.
func answer(ctx context.Context, r *rest.Request, into any) error {
	got := r.Do(ctx)
	if err := got.Error(); err != nil { // not Raw's error, which does not have the server's words
		return err
	}
	raw, err := got.Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("the server's answer: %w", err)
	}
	return nil
}
