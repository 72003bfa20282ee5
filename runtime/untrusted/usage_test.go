package untrusted

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// A measurement for nobody ends where it is.
func TestUsageEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	for i := range 100 {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if used, err := Usage(t.Context(), dir); err != nil || used.Inodes != 101 {
		t.Errorf("%+v: %v", used, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if used, err := Usage(ctx, dir); !errors.Is(err, context.Canceled) || used.Inodes > 1 {
		t.Errorf("%+v: %v", used, err)
	}
}
