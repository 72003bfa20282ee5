package containerd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

func TestTakesFilters(t *testing.T) {
	for version, want := range map[string]bool{
		"crun 1.8.1":       true,
		"crun 1.21-dirty":  true,
		"crun 0.18":        true,
		"crun 0.17":        false,
		"crun 0.9.1":       false,
		"crun UNKNOWN":     false,
		"runc 1.1.5+ds1":   false,
		"my-runtime 1.2.3": false,
	} {
		if got := takesFilters(version); got != want {
			t.Errorf("%s: %v", version, got)
		}
	}
}

type compiler = func(context.Context, ociRuntime, *specs.LinuxSeccomp) ([]byte, error)

func filtersIn(t *testing.T, dir string, compile compiler) *filters {
	t.Helper()
	f, err := openFilters(&filters{dir: dir, compile: compile, logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var anyCrun = ociRuntime{Version: "crun 1.8.1", fingerprint: "crun"}

// profile returns a profile that differs for each n.
func profile(n int) *specs.LinuxSeccomp {
	return &specs.LinuxSeccomp{DefaultAction: specs.ActErrno, Architectures: []specs.Arch{specs.Arch(fmt.Sprint(n))}}
}

func TestAProfileIsCompiledOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "seccomp")
	var compiled atomic.Int32
	compile := func(context.Context, ociRuntime, *specs.LinuxSeccomp) ([]byte, error) {
		compiled.Add(1)
		return []byte("filter"), nil
	}
	for _, process := range []string{"the first", "the next"} {
		f := filtersIn(t, dir, compile)
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				spec := &specs.Spec{Linux: &specs.Linux{Seccomp: profile(1)}}
				if err := f.apply(t.Context(), anyCrun, spec); err != nil || spec.Linux.Seccomp != nil || spec.Annotations[annotationFilter] != "ZmlsdGVy" {
					t.Errorf("%s: got %+v, %v", process, spec, err)
				}
			})
		}
		group.Wait()
	}
	if n := compiled.Load(); n != 1 {
		t.Errorf("%d times", n)
	}
}

func TestAProfileDoesNotWaitForAnother(t *testing.T) {
	second := make(chan struct{})
	f := filtersIn(t, t.TempDir(), func(_ context.Context, _ ociRuntime, p *specs.LinuxSeccomp) ([]byte, error) {
		if p.Architectures[0] == "1" {
			<-second
		} else {
			close(second)
		}
		return []byte("filter"), nil
	})
	var group sync.WaitGroup
	for n := range 2 {
		group.Go(func() {
			if _, err := f.of(t.Context(), anyCrun, profile(1+n)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestWhoeverGivesUpFailsNobodyElse(t *testing.T) {
	ctx, giveUp := context.WithCancel(t.Context())
	begun := make(chan struct{})
	f := filtersIn(t, t.TempDir(), func(of context.Context, _ ociRuntime, _ *specs.LinuxSeccomp) ([]byte, error) {
		if of == ctx {
			close(begun)
			<-of.Done()
			return nil, of.Err()
		}
		return []byte("filter"), nil
	})
	var group sync.WaitGroup
	group.Go(func() {
		if _, err := f.of(ctx, anyCrun, profile(1)); !errors.Is(err, context.Canceled) {
			t.Errorf("who gives up: %v", err)
		}
	})
	<-begun
	group.Go(func() {
		if filter, err := f.of(t.Context(), anyCrun, profile(1)); err != nil || filter == "" {
			t.Errorf("another: %q, %v", filter, err)
		}
	})
	giveUp()
	group.Wait()
}

func TestFiltersAreBounded(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		f := filtersIn(t, dir, func(context.Context, ociRuntime, *specs.LinuxSeccomp) ([]byte, error) { return []byte("filter"), nil })
		for n := range mostFilters + 10 {
			if _, err := f.of(t.Context(), anyCrun, profile(n)); err != nil {
				t.Fatal(err)
			}
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != mostFilters || f.known.Len() != mostFilters {
			t.Errorf("%d files, %d known, %v", len(files), f.known.Len(), err)
		}
	}
}
