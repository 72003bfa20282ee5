package storage

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// TestWordsOfEveryKind has lists by label find the objects of each kind that can be stored.
func TestWordsOfEveryKind(t *testing.T) {
	set := map[string]string{"a": "b", "example.com/empty": "", "b": "a"}
	kinds := 0
	for gvk, of := range scheme.Scheme.AllKnownTypes() {
		obj, ok := reflect.New(of).Interface().(runtime.Object)
		if !ok {
			continue
		}
		m, err := meta.Accessor(obj)
		if err != nil || gvk.Version == runtime.APIVersionInternal {
			continue // a list, or options
		}
		m.SetName("x")
		m.SetLabels(set)
		m.SetAnnotations(map[string]string{"other": "thing"})
		value, err := scheme.Encode(obj)
		if err != nil {
			t.Errorf("%s: %v", gvk, err)
			continue
		}
		kinds++
		var got, want []uint32
		if !Words(value, func(word uint32) { got = append(got, word) }) {
			t.Errorf("%s: its words are not known", gvk)
		}
		for key, value := range set {
			hash := maphash.String(seed, key)
			want = append(want, uint32(hash), labelWord(hash, []byte(value)))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", gvk, got, want)
		}
	}
	if kinds < 20 {
		t.Errorf("only %d kinds were tried", kinds)
	}
}

func TestWordsOfWhatIsNoObject(t *testing.T) {
	value, err := scheme.Encode(pod("a", map[string]string{"a": "b"}))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string][]byte{
		"nothing":        nil,
		"text":           []byte("neither protobuf nor anything else"),
		"no metadata":    value[len(value)-1:],
		"half a header":  value[:1],
		"half an object": value[:len(value)/3],
	} {
		if Words(value, func(uint32) {}) {
			t.Errorf("%s: has words", name)
		}
	}
}

// names are those of what a list has, with their versions.
func names(pods []corev1.Pod, matching labels.Selector) (names []string) {
	for i := range pods {
		if matching.Matches(labels.Set(pods[i].Labels)) {
			names = append(names, pods[i].Namespace+"/"+pods[i].Name+"@"+pods[i].ResourceVersion)
		}
	}
	return names
}

// TestSelectedWhileOthersWrite compares lists and watches by label with lists of everything at the same version, while others create,
// change and delete what they show.
func TestSelectedWhileOthersWrite(t *testing.T) {
	s := newPods(openStore(t, filepath.Join(t.TempDir(), "jobd.db"), store.Options{NoSync: true, HistoryBytes: 64 << 20}))
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	defer writers.Wait()
	defer cancel()
	set := func(r *rand.Rand, job int) map[string]string {
		set := map[string]string{"job-name": fmt.Sprintf("job-%d", job)}
		if r.IntN(2) == 0 {
			set["tier"] = []string{"", "gold", "silver"}[r.IntN(3)]
		}
		return set
	}
	for w := range 3 {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(7, uint64(w)))
			for ctx.Err() == nil {
				job := r.IntN(40)
				name, namespace := fmt.Sprintf("job-%d-%d", job, r.IntN(12)), []string{"default", "other"}[r.IntN(2)]
				key := "/pods/" + namespace + "/" + name
				p := pod(name, set(r, job))
				p.Namespace = namespace
				switch r.IntN(4) {
				case 0:
					_ = s.Delete(ctx, key, &corev1.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}) // there may be none
				case 1:
					_ = s.GuaranteedUpdate(ctx, key, &corev1.Pod{}, false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
						obj.(*corev1.Pod).Labels = p.Labels
						return obj, nil
					}), nil)
				default:
					_ = s.Create(ctx, key, p, &corev1.Pod{}, 0) // there may be one
				}
			}
		})
	}
	list := func(prefix string, opts storage.ListOptions) *corev1.PodList {
		t.Helper()
		opts.Recursive = true
		list := &corev1.PodList{}
		if err := s.GetList(t.Context(), prefix, opts, list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	r := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 300 {
		job := r.IntN(41)
		text := []string{
			fmt.Sprintf("job-name=job-%d", job),
			fmt.Sprintf("job-name=job-%d,tier", job),
			fmt.Sprintf("job-name in (job-%d, job-%d),tier=gold", job, job/2),
			"tier=gold", "tier=", "tier,tier notin (gold)", "!tier", "nobody=has",
			"job-name in (" + strings.Join(strings.Split("abcdefghijklmnopqrs", ""), ",") + fmt.Sprintf(",job-%d)", job),
		}[r.IntN(9)]
		selector, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		prefix := []string{"/pods/", "/pods/default/", "/pods/other/"}[r.IntN(3)]
		var got []corev1.Pod
		var version string
		what := []string{"a list", "pages", "a watch"}[r.IntN(3)]
		switch what {
		case "a list":
			l := list(prefix, storage.ListOptions{Predicate: selecting(text)})
			got, version = l.Items, l.ResourceVersion
		case "pages":
			p := selecting(text)
			p.Limit = int64(1 + r.IntN(20))
			for more := true; more; more = p.Continue != "" {
				l := list(prefix, storage.ListOptions{Predicate: p})
				got, version, p.Continue = append(got, l.Items...), l.ResourceVersion, l.Continue
			}
		case "a watch":
			p := selecting(text)
			p.AllowWatchBookmarks = true
			w, err := s.Watch(t.Context(), prefix, storage.ListOptions{Recursive: true, SendInitialEvents: ptr.To(true), Predicate: p})
			if err != nil {
				t.Fatal(err)
			}
			for e := range w.ResultChan() {
				obj, ok := e.Object.(*corev1.Pod)
				if s, shared := e.Object.(*shared); shared {
					obj, ok = s.object.(*corev1.Pod)
				}
				if !ok || e.Type != watch.Added && e.Type != watch.Bookmark {
					t.Fatalf("%s: %s %v", text, e.Type, e.Object)
				}
				if e.Type == watch.Bookmark {
					version = obj.ResourceVersion
					break
				}
				got = append(got, *obj)
			}
			w.Stop()
		}
		all := list(prefix, storage.ListOptions{
			ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact, Predicate: storage.Everything,
		})
		if got, want := names(got, labels.Everything()), names(all.Items, selector); !slices.Equal(got, want) {
			t.Fatalf("%s of %s by %s at %s: %q, want %q", what, prefix, text, version, got, want)
		}
		found += len(got)
	}
	if found == 0 {
		t.Error("nothing was ever found")
	}
}
