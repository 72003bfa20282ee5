package names

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/store"
)

// shown is an endpoint in short: NAME ADDRESS, and what is not as usual.
func shown(e discoveryv1.Endpoint) string {
	out := e.TargetRef.Name + " " + strings.Join(e.Addresses, ",")
	if e.Hostname != nil {
		out += " as " + *e.Hostname
	}
	if !*e.Conditions.Ready {
		out += " unready"
	}
	if !*e.Conditions.Serving {
		out += " not serving"
	}
	if *e.Conditions.Terminating {
		out += " terminating"
	}
	return out
}

func (g group) String() string {
	var out []string
	for _, p := range g.ports {
		out = append(out, fmt.Sprintf("%s:%d/%s", *p.Name, *p.Port, *p.Protocol))
	}
	for _, e := range g.endpoints {
		out = append(out, shown(e))
	}
	return strings.Join(out, "; ")
}

func TestEndpoints(t *testing.T) {
	ending := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
	port := func(name string, number int32) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: name, ContainerPort: number, Protocol: corev1.ProtocolTCP}}}}
		}
	}
	ports := func(ports ...corev1.ServicePort) func(*corev1.ServiceSpec) {
		return func(s *corev1.ServiceSpec) { s.Ports = ports }
	}
	for _, c := range []struct {
		name string
		edit func(*corev1.ServiceSpec)
		pods []*corev1.Pod
		want []string
	}{
		{"ready pods, and others as what they are", nil, []*corev1.Pod{
			newPodAt("a", "web", "10.0.0.1"), newPodAt("b", "web", "10.0.0.2", unready), newPodAt("c", "web", "10.0.0.3", ending),
		},
			[]string{"a 10.0.0.1; b 10.0.0.2 unready not serving; c 10.0.0.3 unready terminating"}},
		{"all are ready with publishNotReadyAddresses", func(s *corev1.ServiceSpec) { s.PublishNotReadyAddresses = true }, []*corev1.Pod{
			newPodAt("b", "web", "10.0.0.2", unready), newPodAt("c", "web", "10.0.0.3", ending),
		},
			[]string{"b 10.0.0.2 not serving; c 10.0.0.3 terminating"}},
		{"a hostname under the service's own subdomain", nil, []*corev1.Pod{
			newPodAt("a", "web", "10.0.0.1", host("a-0", "web")), newPodAt("b", "web", "10.0.0.2", host("b-0", "other")),
		},
			[]string{"a 10.0.0.1 as a-0; b 10.0.0.2"}},
		{"the port that the service leads to", ports(
			corev1.ServicePort{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8080)},
		), []*corev1.Pod{newPodAt("a", "web", "10.0.0.1")},
			[]string{"http:8080/TCP; a 10.0.0.1"}},
		{"by name it may be another one in each pod", ports(
			corev1.ServicePort{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("web")},
		),
			[]*corev1.Pod{
				newPodAt("a", "web", "10.0.0.1", port("web", 1)), newPodAt("b", "web", "10.0.0.2", port("web", 2)),
				newPodAt("c", "web", "10.0.0.3", port("web", 1)), newPodAt("d", "web", "10.0.0.4", port("other", 1)),
			},
			[]string{"http:1/TCP; a 10.0.0.1; c 10.0.0.3", "http:2/TCP; b 10.0.0.2", "d 10.0.0.4"}},
		{"nobody", nil, []*corev1.Pod{newPodAt("a", "other", "10.0.0.1")}, []string{""}},
		{"no group where nobody is selected", func(s *corev1.ServiceSpec) { s.Selector = nil }, []*corev1.Pod{newPodAt("a", "web", "10.0.0.1")}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newIndex()
			for _, p := range c.pods {
				x.setPod(p)
			}
			s := newServiceNamed("web")
			if c.edit != nil {
				c.edit(&s.Spec)
			}
			var got []string
			for _, g := range x.endpointsOf(s) {
				got = append(got, g.String())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestArrange(t *testing.T) {
	s := newServiceNamed("web")
	s.Name, s.UID = "web", "uid"
	ports := func(number int32) []discoveryv1.EndpointPort {
		return []discoveryv1.EndpointPort{{Name: ptr.To("p"), Port: ptr.To(number)}}
	}
	pods := func(from, to int, state ...bool) (out []discoveryv1.Endpoint) {
		for i := from; i < to; i++ {
			p := pod{serving: len(state) == 0}
			out = append(out, p.endpoint(s, fmt.Sprintf("p%03d", i)))
		}
		return out
	}
	slice := func(name string, ports []discoveryv1.EndpointPort, endpoints []discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		out := &discoveryv1.EndpointSlice{Ports: ports, Endpoints: endpoints}
		out.Name = name
		describe(out, s)
		return out
	}
	type list = []*discoveryv1.EndpointSlice
	for _, c := range []struct {
		name          string
		groups        []group
		have          list
		write, remove string // NAME=ENDPOINTS
	}{
		{"one slice for few", []group{{ports(1), pods(0, 3)}}, nil, "=3", ""},
		{"several for many", []group{{ports(1), pods(0, 250)}}, nil, "=100 =100 =50", ""},
		{"one for nobody", []group{{}}, nil, "=0", ""},
		{
			"nothing when nothing has changed", []group{{ports(1), pods(0, 120)}},
			list{slice("a", ports(1), pods(0, 100)), slice("b", ports(1), pods(100, 120))}, "", "",
		},
		{
			"a new one goes where there is room", []group{{ports(1), pods(0, 121)}},
			list{slice("a", ports(1), pods(0, 100)), slice("b", ports(1), pods(100, 120))}, "b=21", "",
		},
		{
			"who is gone leaves only its own slice", []group{{ports(1), pods(1, 120)}},
			list{slice("a", ports(1), pods(0, 100)), slice("b", ports(1), pods(100, 120))}, "a=99", "",
		},
		{
			"a slice that is empty goes", []group{{ports(1), pods(0, 100)}},
			list{slice("a", ports(1), pods(0, 100)), slice("b", ports(1), pods(100, 120))}, "", "b",
		},
		{"but the last one stays", []group{{}}, list{slice("a", nil, nil)}, "", ""},
		{"what has changed of one", []group{{ports(1), pods(0, 1, false)}}, list{slice("a", ports(1), pods(0, 1))}, "a=1", ""},
		{"other ports are other slices", []group{{ports(2), pods(0, 1)}}, list{slice("a", ports(1), pods(0, 1))}, "=1", "a"},
		{"all go with the service", nil, list{slice("a", ports(1), pods(0, 1)), slice("b", ports(1), pods(1, 2))}, "", "a b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			write, remove := arrange(s, c.groups, c.have)
			var written, removed []string
			for _, s := range write {
				written = append(written, fmt.Sprintf("%s=%d", s.Name, len(s.Endpoints)))
			}
			for _, s := range remove {
				removed = append(removed, s.Name)
			}
			if w, r := strings.Join(written, " "), strings.Join(removed, " "); w != c.write || r != c.remove {
				t.Errorf("write %q, remove %q", w, r)
			}
		})
	}
}

func TestPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(filepath.Join(t.TempDir(), "db"), store.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		update := func(fn func(*store.Tx)) {
			t.Helper()
			if err := s.Update(context.Background(), func(tx *store.Tx) error { fn(tx); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		put := func(key, uid string, obj runtime.Object) {
			t.Helper()
			value, err := scheme.Encode(obj)
			if err != nil {
				t.Fatal(err)
			}
			update(func(tx *store.Tx) { tx.Put(store.Object{Key: key, UID: uid, Value: value}) })
		}
		read := func() (out []*discoveryv1.EndpointSlice) {
			t.Helper()
			if err := s.View(func(snapshot *store.Snapshot) error {
				snapshot.Range(endpointSlices+"/", "", func(o store.Object) bool {
					slice := &discoveryv1.EndpointSlice{}
					if err = scheme.Decode(o.Value, slice); err == nil {
						out = append(out, slice)
					}
					return err == nil
				})
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return out
		}
		const counted = "count/" + endpointSlices
		limit := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q"}}
		limit.Spec.Hard = corev1.ResourceList{counted: resource.MustParse("5")}
		limit.Status.Used = corev1.ResourceList{counted: resource.MustParse("0")}
		put("resourcequotas/ns/q", "q", limit)
		used := func() int {
			t.Helper()
			var quotas []corev1.ResourceQuota
			if err := s.View(func(snapshot *store.Snapshot) (err error) {
				quotas, err = storage.ResourceQuotas(snapshot, "ns")
				return err
			}); err != nil {
				t.Fatal(err)
			}
			n := quotas[0].Status.Used[counted]
			return int(n.Value())
		}
		expect := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(context.Background(), 2*pause)
			<-ctx.Done()
			cancel()
			synctest.Wait()
			var got []string
			for _, slice := range read() {
				got = append(got, slice.Labels[discoveryv1.LabelServiceName]+": "+group{slice.Ports, slice.Endpoints}.String())
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", when, got, want)
			}
			if used := used(); used != len(got) {
				t.Errorf("%s: the quota counts %d slices, and %d are there", when, used, len(got))
			}
		}
		run := func() (stop func()) {
			ctx, cancel := context.WithCancel(context.Background())
			x, done := newIndex(), make(chan struct{}, 2)
			go func() { x.follow(ctx, s, slog.New(slog.DiscardHandler)); done <- struct{}{} }()
			go func() { x.publish(ctx, s, slog.New(slog.DiscardHandler)); done <- struct{}{} }()
			return func() { cancel(); <-done; <-done }
		}
		service := newServiceNamed("web")
		service.UID = "service"
		stop := run()
		put("services/ns/web", "service", service)
		expect("nobody yet", "web: ")
		put("pods/ns/a", "a", newPodAt("a", "web", "10.0.0.1"))
		put("pods/ns/b", "b", newPodAt("b", "other", "10.0.0.2"))
		expect("a pod", "web: a 10.0.0.1")
		first := read()[0]
		if owner := metav1.GetControllerOf(first); owner == nil || owner.UID != "service" || !strings.HasPrefix(first.Name, "web-") {
			t.Errorf("it is %+v", first.ObjectMeta)
		}
		stop()
		put("pods/ns/a", "a", newPodAt("a", "web", "10.0.0.1", unready))
		stop = run()
		expect("what happened while nobody looked", "web: a 10.0.0.1 unready not serving")
		if now := read()[0]; now.Name != first.Name || now.UID != first.UID {
			t.Error("it is another slice")
		}
		update(func(tx *store.Tx) {
			if _, _, err := storage.Delete(tx, store.Key(endpointSlices, "ns", first.Name)); err != nil {
				t.Error(err)
			}
		})
		expect("somebody has deleted it", "web: a 10.0.0.1 unready not serving")
		stop()
		update(func(tx *store.Tx) { tx.Delete("services/ns/web") })
		stop = run()
		defer stop()
		expect("without the service")
	})
}
