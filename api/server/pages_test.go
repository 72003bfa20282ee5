package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

const manyConfigMaps = "configmaps/many/"

// fillMany makes the namespace "many" with that number of ConfigMaps.
func (ts *testServer) fillMany(t testing.TB, n int) {
	t.Helper()
	mustMake(t, ts.client(t).CoreV1().Namespaces(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "many"}})
	err := ts.store.Update(t.Context(), func(tx *store.Tx) error {
		for i := range n {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Namespace: "many", Name: fmt.Sprintf("c-%05d", i), UID: types.UID(fmt.Sprint("uid-", i)), Labels: map[string]string{
					"third": strconv.FormatBool(i%3 == 0),
				},
			}}
			value, err := scheme.Encode(cm)
			if err != nil {
				return err
			}
			tx.Put(store.Object{Key: manyConfigMaps + cm.Name, UID: string(cm.UID), Value: value})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// disturb creates, changes and deletes ConfigMaps until it is stopped.
func (ts *testServer) disturb(t testing.TB, n int) (stop func()) {
	c := ts.client(t).CoreV1().ConfigMaps("many")
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	for w := range 3 {
		writing.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for i := 0; ctx.Err() == nil; i++ {
				var err error
				name := fmt.Sprintf("c-%05d", rng.IntN(n))
				switch rng.IntN(3) {
				case 0:
					_, err = c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d-%d", name, w, i)}}, metav1.CreateOptions{})
				case 1:
					_, err = c.Patch(ctx, name, types.MergePatchType, []byte(`{"data":{"changed":"yes"}}`), metav1.PatchOptions{})
				case 2:
					err = c.Delete(ctx, name, metav1.DeleteOptions{})
				}
				if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	return func() { cancel(); writing.Wait() }
}

// then returns what a list at a version has to show: the version of each object by name.
func (ts *testServer) then(t testing.TB, version string) map[string]string {
	t.Helper()
	at, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]string{}
	err = ts.store.View(func(sn *store.Snapshot) error {
		past, err := sn.At(at, manyConfigMaps)
		if err != nil {
			return err
		}
		past.Range(manyConfigMaps, store.Wanted{}, func(o store.Object) bool {
			objects[strings.TrimPrefix(o.Key, manyConfigMaps)] = strconv.FormatUint(o.Version, 10)
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// TestPagesShowOneMomentWhileOthersWrite lists 5,000 objects in pages while they are changed: all pages are of the
// first one's version, and together they are exactly what was there then.
func TestPagesShowOneMomentWhileOthersWrite(t *testing.T) {
	const n = 5000
	ts := startServer(t)
	ts.fillMany(t, n)
	defer ts.disturb(t, n)()
	for encoding, limits := range map[string][]int64{"application/json": {500}, "application/vnd.kubernetes.protobuf": {777, 4999}} {
		config := ts.config()
		config.ContentType = encoding
		c := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("many")
		for _, limit := range limits {
			options := metav1.ListOptions{Limit: limit}
			shown, version, pages := map[string]string{}, "", 0
			last := ""
			for {
				page, err := c.List(t.Context(), options)
				if err != nil {
					t.Fatal(err)
				}
				if version == "" {
					version = page.ResourceVersion
				}
				if page.ResourceVersion != version {
					t.Fatalf("page %d is of version %s, the first of %s", pages, page.ResourceVersion, version)
				}
				for _, cm := range page.Items {
					if cm.Name <= last {
						t.Fatalf("%s comes after %s", cm.Name, last)
					}
					last = cm.Name
					shown[cm.Name] = cm.ResourceVersion
				}
				pages++
				if left := page.RemainingItemCount; page.Continue != "" && (left == nil || int(*left) != len(ts.then(t, version))-len(shown)) {
					t.Errorf("page %d: %v are said to remain", pages, left)
				}
				if options.Continue = page.Continue; options.Continue == "" {
					break
				}
			}
			want := ts.then(t, version)
			if len(shown) != len(want) {
				t.Errorf("%d objects, there were %d", len(shown), len(want))
			}
			for name, v := range want {
				if shown[name] != v {
					t.Errorf("%s: version %s, it was %s", name, shown[name], v)
				}
			}
		}
	}
	// The list of one moment can also be asked for by its version.
	c := ts.client(t).CoreV1().ConfigMaps("many")
	list, err := c.List(t.Context(), metav1.ListOptions{LabelSelector: "third=true", Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.List(
		t.Context(),
		metav1.ListOptions{
			LabelSelector: "third=true", Limit: 10, ResourceVersion: list.ResourceVersion,
			ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		},
	)
	if err != nil || len(again.Items) != 10 || list.RemainingItemCount != nil || list.Continue == "" {
		t.Fatalf("%d selected: %v", len(again.Items), err)
	}
	for i := range list.Items {
		if list.Items[i].Name != again.Items[i].Name || list.Items[i].ResourceVersion != again.Items[i].ResourceVersion {
			t.Errorf("%s is not %s", again.Items[i].Name, list.Items[i].Name)
		}
	}
}

// TestAPageThatComesTooLate is told so as in a cluster: with a token that goes on with what exists now.
func TestAPageThatComesTooLate(t *testing.T) {
	ts := startServer(t)
	ts.fillMany(t, 30)
	c := ts.client(t).CoreV1().ConfigMaps("many")
	first, err := c.List(t.Context(), metav1.ListOptions{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), "c-00015", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	mustMake(t, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c-00016-new"}})
	if err := ts.store.Cut(t.Context(), ts.store.Version()); err != nil {
		t.Fatal(err)
	}
	_, err = c.List(t.Context(), metav1.ListOptions{Limit: 10, Continue: first.Continue})
	var status *apierrors.StatusError
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) || status.ErrStatus.Code != 410 || status.ErrStatus.Continue == "" {
		t.Fatalf("%+v", err)
	}
	if !strings.HasPrefix(status.ErrStatus.Message, "The provided continue parameter is too old to display a consistent list result.") {
		t.Error(status.ErrStatus.Message)
	}
	rest, err := c.List(t.Context(), metav1.ListOptions{Continue: status.ErrStatus.Continue})
	if err != nil || rest.ResourceVersion != strconv.FormatUint(ts.store.Version(), 10) {
		t.Fatalf("%v: %v", rest, err)
	}
	var names []string
	for _, cm := range rest.Items {
		names = append(names, cm.Name)
	}
	if got := strings.Join(names, " "); !strings.HasPrefix(got, "c-00010 c-00011 c-00012 c-00013 c-00014 c-00016 c-00016-new c-00017 ") || len(names) != 20 {
		t.Error(got)
	}

	// This is what client-go does about it when it lists in pages: it gets the whole list, once more.
	cut := false
	p := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		if o.Continue != "" && !cut {
			cut = true
			mustMake(t, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}})
			if err := ts.store.Cut(ctx, ts.store.Version()); err != nil {
				t.Error(err)
			}
		}
		return c.List(ctx, o)
	})
	p.PageSize = 10
	list, _, err := p.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.(*corev1.ConfigMapList).Items) != 31 || !cut {
		t.Errorf("%T: %v", list, err)
	}

	for _, token := range []string{"nonsense", "e30", first.Continue + "x", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi8uLi9zZWNyZXRzIn0"} {
		if _, err := c.List(t.Context(), metav1.ListOptions{Limit: 10, Continue: token}); !apierrors.IsBadRequest(err) {
			t.Errorf("%s: %v", token, err)
		}
	}
}
