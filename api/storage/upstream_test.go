package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apitesting "k8s.io/apimachinery/pkg/api/apitesting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/jobd/jobd/store"
)

// These are the tests that Kubernetes has for the storage behind its handlers. All of its Run functions run here,
// except for those that notRun names with the reason; TestAllOfUpstreamIsAccountedFor sees to that.
//
// The functions that exchange a transformer get one inside the codec, which is the only thing here that turns bytes
// into objects.

type harness struct {
	*Storage
	codec *transformingCodec
	store *store.Store
}

const testPrefix = "test!"

func newHarness(t *testing.T) *harness {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "jobd.db"), store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	if err := errors.Join(example.AddToScheme(scheme), examplev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	plain := storagetesting.NewPrefixTransformer([]byte(testPrefix), false)
	codec := &transformingCodec{
		Codec:       apitesting.TestCodec(serializer.NewCodecFactory(scheme), examplev1.SchemeGroupVersion),
		plain:       plain,
		transformer: plain,
	}
	return &harness{
		Storage: New(s, codec, "/pods/", func() runtime.Object { return &example.Pod{} }),
		codec:   codec,
		store:   s,
	}
}

// transformingCodec has a transformer between bytes and objects, as Kubernetes' storage has.
type transformingCodec struct {
	runtime.Codec
	plain       value.Transformer
	mu          sync.Mutex
	transformer value.Transformer
	failing     atomic.Bool
	decoded     atomic.Uint64
	stale       int
}

func (c *transformingCodec) current() value.Transformer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.transformer
}

func (c *transformingCodec) exchange(next value.Transformer) (revert func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.transformer
	c.transformer = next
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.transformer = last
	}
}

func (c *transformingCodec) Encode(obj runtime.Object, w io.Writer) error {
	var b bytes.Buffer
	if err := c.Codec.Encode(obj, &b); err != nil {
		return err
	}
	transformer := c.current()
	data, err := transformer.TransformToStorage(context.Background(), b.Bytes(), value.DefaultContext{})
	if err != nil {
		return err
	}
	// A transformer that calls what it reads stale wants it written again: returning other bytes for the same object
	// has that effect.
	if prefix, ok := transformer.(*storagetesting.PrefixTransformer); !ok {
	} else if _, stale, err := prefix.TransformFromStorage(context.Background(), data, value.DefaultContext{}); err == nil && stale {
		c.stale++
		data = append(data, bytes.Repeat([]byte("\n"), c.stale)...)
	}
	_, err = w.Write(data)
	return err
}

func (c *transformingCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	c.decoded.Add(1)
	if c.failing.Load() {
		return nil, nil, errors.New("synthetic error")
	}
	// Transformers are told the key; it is that of the object.
	var key value.DefaultContext
	if plain, ok := bytes.CutPrefix(data, []byte(testPrefix)); ok {
		if obj, _, err := c.Codec.Decode(plain, nil, nil); err == nil {
			pod := obj.(*example.Pod)
			key = value.DefaultContext(fmt.Sprintf("/pods/%s/%s", pod.Namespace, pod.Name))
		}
	}
	transformer := c.current()
	if _, ok := transformer.(*storagetesting.PrefixTransformer); !ok {
		// Some transformers use the storage again, and must not meet themselves there.
		defer c.exchange(c.plain)()
	}
	data, _, err := transformer.TransformFromStorage(context.Background(), data, key)
	if err != nil {
		return nil, nil, err
	}
	return c.Codec.Decode(data, defaults, into)
}

func (h *harness) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	changed := *h.codec.current().(*storagetesting.PrefixTransformer)
	return h.codec.exchange(modify(&changed))
}

func (h *harness) UpdateTransformer(modify storagetesting.TransformerModifier) func() {
	return h.codec.exchange(modify(h.codec.current()))
}

// validateKey checks that what is stored has neither a resourceVersion nor a selfLink.
func (h *harness) validateKey(_ context.Context, t *testing.T, key string) {
	t.Helper()
	err := h.store.View(func(sn *store.Snapshot) error {
		o, ok := sn.Get(key[1:])
		if !ok {
			return fmt.Errorf("%s is not there", key)
		}
		obj, err := runtime.Decode(h.codec, o.Value)
		if err != nil {
			return err
		}
		//lint:ignore SA1019 upstream's tests check that nothing is stored in the deprecated field
		if pod := obj.(*example.Pod); pod.ResourceVersion != "" || pod.SelfLink != "" {
			//lint:ignore SA1019 as above
			return fmt.Errorf("%s is stored with resourceVersion %q, selfLink %q", key, pod.ResourceVersion, pod.SelfLink)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// GetList counts for validateCalls.
func (h *harness) GetList(ctx context.Context, key string, opts storage.ListOptions, listObj runtime.Object) error {
	h.codec.decoded.Store(0)
	return h.Storage.GetList(ctx, key, opts, listObj)
}

// validateCalls checks that the last list decoded no more than it had to.
func (h *harness) validateCalls(t *testing.T, _, objects uint64) {
	t.Helper()
	if got := h.codec.decoded.Load(); got != objects {
		t.Errorf("decoded %d objects, needed %d", got, objects)
	}
}

func (h *harness) increaseRV(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	var version uint64
	err := h.store.Update(ctx, func(tx *store.Tx) error {
		version = tx.Put(store.Object{Key: "other/" + strconv.FormatUint(tx.Version(), 10)})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return int64(version)
}

// compact cuts the history, and counts the version up as the compaction of etcd does.
func (h *harness) compact(ctx context.Context, t *testing.T, resourceVersion string) {
	t.Helper()
	h.increaseRV(ctx, t)
	version, err := h.Versioner().ParseResourceVersion(resourceVersion)
	if err == nil {
		err = h.store.Cut(ctx, version)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// expire deletes what has expired, until the test ends.
func (h *harness) expire(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if _, err := expire(ctx, h.store, time.Now()); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// notRun are the functions of the package that are not run, and why.
var notRun = map[string]string{
	"RunTestGetListWithErrorAggregation": "a list that meets objects which cannot be decoded goes on to collect them, up to a hundred, while other " +
		"errors of a transformer (encryption at rest that is out of order) end it; here is no transformer, every failure is an object that cannot be " +
		"decoded, and the list ends at the first and names it",
	"RunBenchmarkStoreList":       "a benchmark; ours are in bench_test.go",
	"RunBenchmarkStoreStats":      "a benchmark",
	"RunBenchmarkWriteThroughput": "a benchmark",
}

// TestAllOfUpstreamIsAccountedFor finds each exported function of the package that begins with Run among those that run
// here, or among those that do not with the reason.
func TestAllOfUpstreamIsAccountedFor(t *testing.T) {
	dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "k8s.io/apiserver/pkg/storage/testing").Output()
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.ReadFile("upstream_test.go")
	if err != nil {
		t.Fatal(err)
	}
	packages, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	run := 0
	for _, path := range packages {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Run") {
				continue
			}
			runs := regexp.MustCompile(`storagetesting\.` + fn.Name.Name + `\b`).Match(here)
			if _, not := notRun[fn.Name.Name]; runs == not {
				t.Errorf("%s: run: %v, said not to be run: %v", fn.Name.Name, runs, not)
			}
			if runs {
				run++
			}
		}
	}
	if run < 54 {
		t.Errorf("%d functions are run", run)
	}
}

func TestUpstream(t *testing.T) {
	corrupt := errors.New("bits flipped")
	simple := func(run func(context.Context, *testing.T, storage.Interface)) func(*testing.T, *harness) {
		return func(t *testing.T, h *harness) { run(t.Context(), t, h) }
	}
	prefixed := func(run func(context.Context, *testing.T, storagetesting.InterfaceWithPrefixTransformer)) func(*testing.T, *harness) {
		return func(t *testing.T, h *harness) { run(t.Context(), t, h) }
	}
	for name, run := range map[string]func(*testing.T, *harness){
		"Create": func(t *testing.T, h *harness) { storagetesting.RunTestCreate(t.Context(), t, h, h.validateKey) },
		"CreateWithTTL": func(t *testing.T, h *harness) {
			h.expire(t)
			storagetesting.RunTestCreateWithTTL(t.Context(), t, h)
		},
		"CreateWithKeyExist":                         simple(storagetesting.RunTestCreateWithKeyExist),
		"Get":                                        simple(storagetesting.RunTestGet),
		"UnconditionalDelete":                        simple(storagetesting.RunTestUnconditionalDelete),
		"ConditionalDelete":                          simple(storagetesting.RunTestConditionalDelete),
		"DeleteWithSuggestion":                       simple(storagetesting.RunTestDeleteWithSuggestion),
		"DeleteWithSuggestionAndConflict":            simple(storagetesting.RunTestDeleteWithSuggestionAndConflict),
		"DeleteWithConflict":                         simple(storagetesting.RunTestDeleteWithConflict),
		"DeleteWithSuggestionOfDeletedObject":        simple(storagetesting.RunTestDeleteWithSuggestionOfDeletedObject),
		"ValidateDeletionWithSuggestion":             simple(storagetesting.RunTestValidateDeletionWithSuggestion),
		"ValidateDeletionWithOnlySuggestionValid":    simple(storagetesting.RunTestValidateDeletionWithOnlySuggestionValid),
		"PreconditionalDeleteWithSuggestion":         simple(storagetesting.RunTestPreconditionalDeleteWithSuggestion),
		"PreconditionalDeleteWithOnlySuggestionPass": simple(storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass),
		"DeleteWithConflictAndMissingExpectedTransformOrDecodeError": func(t *testing.T, h *harness) {
			storagetesting.RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError(t.Context(), t, h, h.codec.failing.Store)
		},
		"DeleteExpectedTransformOrDecodeError": func(t *testing.T, h *harness) {
			storagetesting.RunTestDeleteExpectedTransformOrDecodeError(t.Context(), t, h, h.codec.failing.Store)
		},
		"DeleteWithSuggestionAndMissingExpectedTransformOrDecodeError": func(t *testing.T, h *harness) {
			storagetesting.RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError(t.Context(), t, h)
		},
		"List": func(t *testing.T, h *harness) {
			storagetesting.RunTestList(t.Context(), t, h, h.compact, false, nil)
		},
		"ConsistentList": func(t *testing.T, h *harness) {
			storagetesting.RunTestConsistentList(t.Context(), t, h, h.increaseRV, false, true, false)
		},
		"GetListNonRecursive": func(t *testing.T, h *harness) {
			storagetesting.RunTestGetListNonRecursive(t.Context(), t, h.increaseRV, h)
		},
		"GetListRecursivePrefix": simple(storagetesting.RunTestGetListRecursivePrefix),
		"GetListWithoutErrorAggregation": func(t *testing.T, h *harness) {
			storagetesting.RunTestGetListWithoutErrorAggregation(t.Context(), t, h, corrupt)
		},
		"ListContinuation": func(t *testing.T, h *harness) {
			storagetesting.RunTestListContinuation(t.Context(), t, h, h.validateCalls)
		},
		"ListPaginationRareObject": func(t *testing.T, h *harness) {
			storagetesting.RunTestListPaginationRareObject(t.Context(), t, h, h.validateCalls)
		},
		"ListContinuationWithFilter": func(t *testing.T, h *harness) {
			storagetesting.RunTestListContinuationWithFilter(t.Context(), t, h, h.validateCalls)
		},
		"ListInconsistentContinuation": func(t *testing.T, h *harness) {
			storagetesting.RunTestListInconsistentContinuation(t.Context(), t, h, h.compact)
		},
		"ListResourceVersionMatch": prefixed(storagetesting.RunTestListResourceVersionMatch),
		"GuaranteedUpdate": func(t *testing.T, h *harness) {
			storagetesting.RunTestGuaranteedUpdate(t.Context(), t, h, h.validateKey)
		},
		"GuaranteedUpdateWithTTL": func(t *testing.T, h *harness) {
			h.expire(t)
			storagetesting.RunTestGuaranteedUpdateWithTTL(t.Context(), t, h)
		},
		"GuaranteedUpdateChecksStoredData":          prefixed(storagetesting.RunTestGuaranteedUpdateChecksStoredData),
		"GuaranteedUpdateWithConflict":              simple(storagetesting.RunTestGuaranteedUpdateWithConflict),
		"GuaranteedUpdateWithSuggestionAndConflict": simple(storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict),
		"TransformationFailure":                     prefixed(storagetesting.RunTestTransformationFailure),
		"Stats": func(t *testing.T, h *harness) {
			storagetesting.RunTestStats(t.Context(), t, h, h.codec.Codec, h.codec.transformer, true)
		},
		"ListPaging":          simple(storagetesting.RunTestListPaging),
		"NamespaceScopedList": simple(storagetesting.RunTestNamespaceScopedList),
		"CompactRevision": func(t *testing.T, h *harness) {
			storagetesting.RunTestCompactRevision(t.Context(), t, h, h.increaseRV, h.compact)
		},
		"KeySchema": simple(storagetesting.RunTestKeySchema),
		"Watch":     simple(storagetesting.RunTestWatch),
		"WatchFromZero": func(t *testing.T, h *harness) {
			storagetesting.RunTestWatchFromZero(t.Context(), t, h, h.compact)
		},
		"DeleteTriggerWatch":   simple(storagetesting.RunTestDeleteTriggerWatch),
		"WatchFromNonZero":     simple(storagetesting.RunTestWatchFromNonZero),
		"DelayedWatchDelivery": simple(storagetesting.RunTestDelayedWatchDelivery),
		"WatchError":           prefixed(storagetesting.RunTestWatchError),
		"WatchWithUnsafeDelete": func(t *testing.T, h *harness) {
			storagetesting.RunTestWatchWithUnsafeDelete(t.Context(), t, h, corrupt)
		},
		"WatchContextCancel":                 simple(storagetesting.RunTestWatchContextCancel),
		"WatcherTimeout":                     simple(storagetesting.RunTestWatcherTimeout),
		"WatchDeleteEventObjectHaveLatestRV": simple(storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV),
		"WatchInitializationSignal":          simple(storagetesting.RunTestWatchInitializationSignal),
		"ProgressNotify": func(t *testing.T, h *harness) {
			h.bookmarks = 100 * time.Millisecond
			storagetesting.RunOptionalTestProgressNotify(t.Context(), t, h, h.increaseRV)
		},
		"ClusterScopedWatch":   simple(storagetesting.RunTestClusterScopedWatch),
		"NamespaceScopedWatch": simple(storagetesting.RunTestNamespaceScopedWatch),
		"WatchDispatchBookmarkEvents": func(t *testing.T, h *harness) {
			storagetesting.RunTestWatchDispatchBookmarkEvents(t.Context(), t, h, true)
		},
		"WatchBookmarksWithCorrectResourceVersion": simple(storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion),
		"SendInitialEventsBackwardCompatibility":   simple(storagetesting.RunSendInitialEventsBackwardCompatibility),
		"WatchSemantics":                           simple(storagetesting.RunWatchSemantics),
		"WatchSemanticInitialEventsExtended":       simple(storagetesting.RunWatchSemanticInitialEventsExtended),
		"WatchListMatchSingle":                     simple(storagetesting.RunWatchListMatchSingle),
		"WatchErrorIsBlockingFurtherEvents":        prefixed(storagetesting.RunWatchErrorIsBlockingFurtherEvents),
	} {
		t.Run(name, func(t *testing.T) { run(t, newHarness(t)) })
	}
}
