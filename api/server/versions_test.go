package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// TestVersionsThatAListCanAskFor goes through resourceVersion and resourceVersionMatch. There are three objects, made
// at versions a < b < c, and a history that has been cut at a.
func TestVersionsThatAListCanAskFor(t *testing.T) {
	ts := startServer(t)
	ts.fillMany(t, 0)
	c := ts.client(t).CoreV1().ConfigMaps("many")
	version := map[string]string{"none": "", "zero": "0", "nonsense": "x", "future": "999999", "negative": "-1"}
	for _, name := range []string{"a", "b", "c"} {
		made := mustMake(t, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}})
		version[name] = made.ResourceVersion
	}
	old, _ := strconv.Atoi(version["a"])
	version["cut"] = strconv.Itoa(old - 1)
	if err := ts.store.Cut(t.Context(), uint64(old)); err != nil {
		t.Fatal(err)
	}
	const exact, notOlder = metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan
	for _, tc := range []struct {
		version string
		match   metav1.ResourceVersionMatch
		limit   int64
		want    string // names, or the reason
	}{
		{"none", "", 0, "a b c"},
		{"zero", "", 0, "a b c"},
		{"b", "", 0, "a b c"},
		{"cut", "", 0, "a b c"},
		{"cut", notOlder, 0, "a b c"},
		{"b", notOlder, 0, "a b c"},
		{"b", notOlder, 1, "a"},
		{"zero", notOlder, 2, "a b"},
		{"a", exact, 0, "a"},
		{"b", exact, 0, "a b"},
		{"c", exact, 0, "a b c"},
		{"c", exact, 2, "a b"},
		{"cut", exact, 0, "Expired"},
		{"future", "", 0, "Timeout"},
		{"future", notOlder, 0, "Timeout"},
		{"future", exact, 0, "Timeout"},
		{"nonsense", "", 0, "BadRequest"},
		{"negative", "", 0, "BadRequest"},
		{"none", exact, 0, "Invalid"},
		{"zero", exact, 0, "Invalid"},
		{"none", notOlder, 0, "Invalid"},
		{"b", "Sometimes", 0, "Invalid"},
	} {
		t.Run(fmt.Sprintf("%s %s %d", tc.version, tc.match, tc.limit), func(t *testing.T) {
			list, err := c.List(t.Context(), metav1.ListOptions{ResourceVersion: version[tc.version], ResourceVersionMatch: tc.match, Limit: tc.limit})
			got := string(apierrors.ReasonForError(err))
			if err == nil {
				var names []string
				for _, cm := range list.Items {
					names = append(names, cm.Name)
				}
				got = strings.Join(names, " ")
				if tc.match == exact && list.ResourceVersion != version[tc.version] {
					t.Errorf("the list is of version %s", list.ResourceVersion)
				}
			}
			if got != tc.want {
				t.Errorf("%s, want %s: %v", got, tc.want, err)
			}
			if tc.want == "Timeout" && !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
				t.Errorf("clients cannot see that the version is too large: %v", err)
			}
		})
	}
	if _, err := c.Get(t.Context(), "a", metav1.GetOptions{ResourceVersion: version["future"]}); !apierrors.IsTimeout(err) {
		t.Errorf("get of a future version: %v", err)
	}
	if got, err := c.Get(t.Context(), "a", metav1.GetOptions{ResourceVersion: "0"}); err != nil || got.ResourceVersion != version["a"] {
		t.Errorf("%v: %v", got, err)
	}
}

// TestHowAWatchCanBegin goes through resourceVersion, resourceVersionMatch and sendInitialEvents: what comes before the
// first change after the watch has begun.
func TestHowAWatchCanBegin(t *testing.T) {
	ts := startServer(t)
	ts.fillMany(t, 0)
	c := ts.client(t).CoreV1().ConfigMaps("many")
	version := map[string]string{"none": "", "zero": "0", "nonsense": "x", "future": "999999"}
	for _, name := range []string{"a", "b"} {
		version[name] = mustMake(t, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}).ResourceVersion
	}
	old, _ := strconv.Atoi(version["a"])
	version["cut"] = strconv.Itoa(old - 1)
	if err := ts.store.Cut(t.Context(), uint64(old)); err != nil {
		t.Fatal(err)
	}
	yes, no := ptr.To(true), ptr.To(false)
	const notOlder = metav1.ResourceVersionMatchNotOlderThan
	for i, tc := range []struct {
		version string
		send    *bool
		match   metav1.ResourceVersionMatch
		marks   bool
		want    string // events before that of the object that is made then; or the reason
	}{
		{"none", nil, "", false, "+a +b"},
		{"zero", nil, "", false, "+a +b"},
		{"a", nil, "", false, "+b"},
		{"b", nil, "", false, ""},
		{"cut", nil, "", false, "Expired"},
		{"future", nil, "", false, "nothing"},
		{"nonsense", nil, "", false, "BadRequest"},
		{"none", yes, notOlder, true, "+a +b end"},
		{"zero", yes, notOlder, true, "+a +b end"},
		{"a", yes, notOlder, true, "+a +b end"},
		{"cut", yes, notOlder, true, "+a +b end"},
		{"none", yes, notOlder, false, "+a +b"},
		{"none", no, notOlder, true, ""},
		{"a", no, notOlder, true, "+b"},
		{"future", yes, notOlder, true, "Timeout"},
		{"none", yes, "", true, "Invalid"},
		{"none", yes, metav1.ResourceVersionMatchExact, true, "Invalid"},
		{"a", nil, notOlder, true, "Invalid"},
	} {
		t.Run(fmt.Sprintf("%s %v %s %v", tc.version, ptr.Deref(tc.send, false), tc.match, tc.marks), func(t *testing.T) {
			made := fmt.Sprint("made-", i)
			w, err := c.Watch(t.Context(), metav1.ListOptions{
				ResourceVersion: version[tc.version], SendInitialEvents: tc.send, ResourceVersionMatch: tc.match, AllowWatchBookmarks: tc.marks,
				FieldSelector: "metadata.name!=kube-root-ca.crt", TimeoutSeconds: ptr.To[int64](60),
			})
			if err != nil {
				if got := string(apierrors.ReasonForError(err)); got != tc.want {
					t.Fatalf("%s, want %s: %v", got, tc.want, err)
				}
				return
			}
			defer w.Stop()
			if tc.want == "nothing" {
				return // a watch may wait for a version that is still to come
			}
			mustMake(t, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: made}})
			defer func() { _ = c.Delete(t.Context(), made, metav1.DeleteOptions{}) }()
			var got []string
			seen, ends := false, strings.HasSuffix(tc.want, "end")
			for e := range w.ResultChan() {
				if e.Type == watch.Error {
					got = []string{string(apierrors.ReasonForError(apierrors.FromObject(e.Object)))}
					break
				}
				cm := e.Object.(*corev1.ConfigMap)
				switch {
				case cm.Name == made:
					seen = true // perhaps before the end of the initial events, which are those of some time after the request
				case strings.HasPrefix(cm.Name, "made-"): // those of earlier cases
				case e.Type == watch.Bookmark && cm.Annotations[metav1.InitialEventsAnnotationKey] == "true" && cm.ResourceVersion != "":
					got = append(got, "end")
				case e.Type == watch.Added:
					got = append(got, "+"+cm.Name)
				default:
					t.Errorf("%+v", e)
				}
				if seen && (!ends || slices.Contains(got, "end")) {
					break
				}
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// TestAWatchEndsWhenItsTimeIsOver and says just before how far it has come, however quiet it was.
func TestAWatchEndsWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	ts := startServer(t)
	ts.fillMany(t, 3)
	c := ts.client(t)
	w, err := c.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{
		ResourceVersion: strconv.FormatUint(ts.store.Version(), 10), AllowWatchBookmarks: true, TimeoutSeconds: ptr.To[int64](3),
	})
	if err != nil {
		t.Fatal(err)
	}
	last := mustMake(t, c.CoreV1().ConfigMaps("many"), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}})
	var events []watch.Event
	for e := range w.ResultChan() {
		events = append(events, e)
	}
	if len(events) != 1 || events[0].Type != watch.Bookmark {
		t.Fatalf("%+v", events)
	}
	if mark := events[0].Object.(*corev1.ConfigMap); mark.ResourceVersion < last.ResourceVersion || mark.Name != "" {
		t.Errorf("bookmark of version %s, the last change was %s", mark.ResourceVersion, last.ResourceVersion)
	}
}

// TestWatchesInEveryForm reads the same event as JSON, as metadata only, and as a row of a table.
func TestWatchesInEveryForm(t *testing.T) {
	ts := startServer(t)
	mustMake(t, ts.client(t).BatchV1().Jobs("default"), newJob("a"))
	for accept, want := range map[string]string{
		"application/json": "Job",
		"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1": "PartialObjectMetadata",
		"application/json;as=Table;g=meta.k8s.io;v=v1":                 "Table",
	} {
		text := ts.get(t, "/apis/batch/v1/jobs?watch=true&timeoutSeconds=1", accept)
		line, _, _ := strings.Cut(text, "\n")
		var event struct {
			Type   string
			Object struct {
				metav1.TypeMeta
				Spec map[string]any
			}
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil || event.Type != "ADDED" || event.Object.Kind != want ||
			(event.Object.Spec != nil) != (want == "Job") {
			t.Errorf("%s: %v: %s", accept, err, text)
		}
	}
	for _, accept := range []string{
		"application/vnd.kubernetes.protobuf;stream=watch",
		"application/vnd.kubernetes.protobuf;stream=watch;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
	} {
		if text := ts.get(t, "/apis/batch/v1/jobs?watch=true&timeoutSeconds=1", accept); !strings.Contains(text, "ADDED") {
			t.Errorf("%s: %q", accept, text)
		}
	}
}

// A client that leaves is noticed, not only one that is told to stop.
func TestAWatchThatItsClientLeavesIsForgotten(t *testing.T) {
	ts := startServer(t, func(c *Config) { c.MaxStreams = 1 })
	c := ts.client(t).CoreV1().ConfigMaps("default")
	for range 5 {
		waitFor(t, "there is room for a watch", func() bool {
			w, err := c.Watch(t.Context(), metav1.ListOptions{TimeoutSeconds: ptr.To(int64(time.Hour / time.Second))})
			if err != nil {
				return false
			}
			w.Stop()
			return true
		})
	}
}
