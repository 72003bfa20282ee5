package clients

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/kind"
	apischeme "github.com/jobd/jobd/api/scheme"
)

type object interface {
	metav1.Object
	runtime.Object
}

// request is one that the hammer sends.
type request struct {
	method, path string
	header       http.Header
	body         []byte
}

func (r request) String() string {
	return fmt.Sprintf("%s %.500s %v %.3000q", r.method, r.path, r.header, r.body)
}

func root(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.String()
}

// generator makes requests up. The same seed makes the same ones.
type generator struct {
	rng   *rand.Rand
	fill  *randfill.Filler
	kinds []*kind.Kind
	proto runtime.Serializer
}

func newGenerator(rng *rand.Rand) *generator {
	return &generator{
		rng:   rng,
		fill:  randfill.NewWithSeed(rng.Int64()).NilChance(0.5).NumElements(0, 3).MaxDepth(8),
		kinds: apischeme.Kinds(),
		proto: protobuf.NewSerializer(apischeme.Scheme, apischeme.Scheme),
	}
}

func oneOf[T any](g *generator, of ...T) T { return of[g.rng.IntN(len(of))] }

// chance is true once in n times.
func (g *generator) chance(n int) bool { return g.rng.IntN(n) == 0 }

// manifests are sound objects to begin with, without what all have in common.
var manifests = map[string][]string{
	"namespaces": {`{}`},
	"pods": {
		`{metadata: {annotations: {jobd.dev/simulate-duration: 50ms}}, spec: {containers: [{name: c, image: busybox, env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}], resources: {requests: {cpu: 10m}}}]}}`,
		`{spec: {restartPolicy: Never, initContainers: [{name: i, image: busybox}, {name: s, image: busybox, restartPolicy: Always}], containers: [{name: c, image: busybox, readinessProbe: {exec: {command: [a]}}, volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, emptyDir: {}}]}}`,
	},
	"events": {`{involvedObject: {namespace: default, kind: Pod, name: a}, reason: Test, message: hello, type: Normal}`},
	"jobs.batch": {
		`{spec: {completions: 3, parallelism: 2, template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}}}`,
		`{spec: {suspend: true, template: {spec: {restartPolicy: OnFailure, containers: [{name: c, image: busybox}]}}}}`,
		`{spec: {completions: 4, completionMode: Indexed, backoffLimitPerIndex: 1, maxFailedIndexes: 2, successPolicy: {rules: [{succeededIndexes: "0-1"}]}, podFailurePolicy: {rules: [{action: FailIndex, onExitCodes: {operator: In, values: [42]}}]}, template: {metadata: {annotations: {jobd.dev/simulate-exit-code: "1:42,2:1"}}, spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}}}`,
		`{spec: {ttlSecondsAfterFinished: 0, activeDeadlineSeconds: 1, backoffLimit: 1, template: {metadata: {annotations: {jobd.dev/simulate-duration: 1h}}, spec: {terminationGracePeriodSeconds: 0, restartPolicy: Never, containers: [{name: c, image: busybox}]}}}}`,
	},
	"cronjobs.batch": {
		`{spec: {schedule: "* * * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}}}}}`,
	},
	"nodes":                             {`{}`},
	"priorityclasses.scheduling.k8s.io": {`{value: 7}`},
	"endpointslices.discovery.k8s.io":   {`{addressType: IPv4, endpoints: [{addresses: [192.0.2.1]}], ports: [{port: 80}]}`},
	"runtimeclasses.node.k8s.io":        {`{handler: crun}`, `{handler: a, overhead: {podFixed: {cpu: 10m}}, scheduling: {nodeSelector: {a: b}}}`},
	"leases.coordination.k8s.io":        {`{spec: {holderIdentity: me, leaseDurationSeconds: 15}}`},
	"services":                          {`{spec: {clusterIP: None, selector: {a: b}, ports: [{port: 80}]}}`},
	"configmaps":                        {`{data: {a: b}}`, `{immutable: true, data: {a: b}}`},
	"secrets":                           {`{stringData: {a: b}}`},
}

func (g *generator) name() string {
	if g.chance(30) {
		return oneOf(g, "", "..", "%", "A", strings.Repeat("n", 300), "ä", "a b", "x/y", "x?y", "system-node-critical")
	}
	return oneOf(g, "a", "b", "c", "d", "e")
}

func (g *generator) namespace() string {
	if g.chance(30) {
		return oneOf(g, "nope", "", "..", strings.Repeat("n", 100), "kube-system")
	}
	return oneOf(g, "default", "default", "h1", "h2")
}

// request makes one up: mostly of a kind that is served, sometimes of nothing at all.
func (g *generator) request() request {
	if g.chance(25) {
		return g.anyPath()
	}
	k := oneOf(g, g.kinds...)
	if g.chance(2) { // most of what there is to go wrong is here
		name := oneOf(g, "Job", "Pod", "CronJob", "Namespace")
		for _, other := range g.kinds {
			if other.Name == name {
				k = other
			}
		}
	}
	gv := k.GroupVersion
	if len(k.AlsoIn) > 0 && g.chance(3) {
		gv = k.AlsoIn[0].GroupVersion
	}
	path := root(gv)
	if k.Namespaced && !g.chance(12) {
		path += "/namespaces/" + url.PathEscape(g.namespace())
	}
	path += "/" + k.Resource
	r := request{header: http.Header{}, path: path}
	if g.chance(3) {
		r.header.Set("Accept", oneOf(g, "application/json", "application/yaml", "application/vnd.kubernetes.protobuf",
			"application/json;as=Table;g=meta.k8s.io;v=v1",
			"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "*/*"))
	}
	if g.chance(30) {
		r.header.Set("Accept", oneOf(g, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "text/plain", ";;", "application/cbor"))
	}
	if g.chance(20) {
		r.header.Set("Accept-Encoding", "gzip")
	}
	one := path + "/" + url.PathEscape(g.name())
	if g.chance(8) {
		one += "/" + oneOf(
			g, "status", "status", "status", "status", "finalize", "log", "eviction", "scale", "binding", "ephemeralcontainers",
			"resize", "token", "nope", "",
		)
	}
	switch g.rng.IntN(12) {
	case 0, 1, 2, 3:
		r.method = "POST"
		if g.chance(15) {
			r.path = one
		}
		g.object(&r, k, gv)
	case 4:
		r.method, r.path = "PUT", one
		g.object(&r, k, gv)
	case 5, 6, 7:
		r.method, r.path = "PATCH", one
		g.patch(&r, k, gv)
	case 8:
		r.method, r.path = "DELETE", one
		g.deleteOptions(&r)
	case 9:
		r.method = "GET"
	case 10:
		r.method, r.path = "GET", one
	default:
		r.method = oneOf(g, "GET", "GET", "GET", "GET", "GET", "GET", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "NONSENSE")
		if r.method == "DELETE" && !g.chance(3) {
			r.method = "GET"
		}
	}
	return g.withQuery(r)
}

// anyPath asks for what is no object.
func (g *generator) anyPath() request {
	return request{method: oneOf(g, "GET", "GET", "GET", "POST", "DELETE", "HEAD"), header: http.Header{}, path: oneOf(g,
		"/", "/api", "/apis", "/api/v1", "/apis/batch/v1", "/apis/batch", "/apis/nope/v1", "/version", "/livez?verbose", "/readyz?verbose",
		"/healthz", "/metrics",
		"/openapi/v3/apis/batch/v1", "/openapi/v3/nope", "/api/v1/watch/pods?timeoutSeconds=1",
		"/api/v1/watch/namespaces/default/pods/a?timeoutSeconds=1", "/apis/batch/v1/namespaces", "/api/v2/pods",
		"/jobd/v1/database", "/jobd/v1/database?op=check", "/jobd/v1/kubeconfig?role=nope", "/%2e%2e/", "//api//v1",
		"/api/v1/namespaces/default/pods/a/log?follow=nope&tailLines=x",
		"/api/v1/namespaces/default/pods/a/log?sinceSeconds=-1", "/api/v1/namespaces/default/pods/a/log?container=zzz&previous=true",
		"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "/apis/authentication.k8s.io/v1/selfsubjectreviews")}
}

// parameters are those of a URL's query, with values that they may have and others.
var parameters = [][]string{
	{"limit", "0", "1", "2", "500", "-1", "x", "9223372036854775807", "99999999999999999999"},
	{"continue", "x", "e30", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0"},
	{"resourceVersion", "", "0", "1", "5", "x", "-1", "18446744073709551615", "99999999"},
	{"resourceVersionMatch", "Exact", "NotOlderThan", "x"},
	{"timeoutSeconds", "1", "0", "x", "-5"},
	{"sendInitialEvents", "true", "false", "x"},
	{"allowWatchBookmarks", "true", "x"},
	{"dryRun", "All", "x", ""},
	{"fieldValidation", "Strict", "Warn", "Ignore", "x"},
	{"fieldManager", "m", "n", strings.Repeat("m", 200), "\x01"},
	{"force", "true", "false", "x"},
	{"gracePeriodSeconds", "0", "1", "-1", "x", "9223372036854775807"},
	{"propagationPolicy", "Orphan", "Background", "Foreground", "x"},
	{"orphanDependents", "true", "false"},
	{"pretty", "true", "x"},
}

func (g *generator) withQuery(r request) request {
	q := url.Values{}
	if g.chance(15) {
		q.Set("labelSelector", g.selector())
	}
	if g.chance(15) {
		q.Set(
			"fieldSelector",
			oneOf(
				g, "metadata.name=a", "metadata.name!=a", "metadata.namespace=h1", "status.phase=Running", "spec.nodeName=",
				"status.successful=1", "involvedObject.name=a", "type=Opaque", "nope=a", "=", ",", "metadata.name=a\\,b",
				"a==b,!", g.text(),
			),
		)
	}
	for _, p := range parameters {
		if g.chance(60) {
			q.Set(p[0], oneOf(g, p[1:]...))
		}
	}
	if r.method == "GET" && g.chance(10) {
		q.Set("watch", oneOf(g, "true", "1", "x"))
		q.Set("timeoutSeconds", "1")
	}
	if strings.HasSuffix(r.path, "/log") {
		q.Set("follow", "false")
	}
	if len(q) > 0 && !strings.Contains(r.path, "?") {
		r.path += "?" + q.Encode()
	}
	return r
}

func (g *generator) selector() string {
	parts := []string{
		"a", "a=b", "a!=b", "!a", "a in (b,c)", "a notin (b)", "a>1", "a<x", "job-name=a",
		"batch.kubernetes.io/job-name in (a,b)", "=", "in", "(", ")", ",", "a in ()", "!", "a==b", g.text(),
	}
	s := oneOf(g, parts...)
	for g.chance(2) {
		s += oneOf(g, ",", ",", " ", "") + oneOf(g, parts...)
	}
	return s
}

func (g *generator) text() string {
	return oneOf(
		g, "", "a", "busybox", "../../x", "\x00", "ä€😀", "\xff\xfe", strings.Repeat("x", g.rng.IntN(400)), "$(A)", "*/5 * * * *",
		"@every 1s", "TZ=x * * * * *", "1-3,5", "0-2147483647", "-1", "1e9", "10Mi", "1.5", "2030-01-01T00:00:00Z", "Never",
		"Indexed", "metadata.labels['a']", "a=b", "default", "{}", "null",
	)
}

// value is one that a field may be given by somebody who has not read what it means.
func (g *generator) value(depth int) any {
	switch n := g.rng.IntN(12); {
	case n < 3:
		return g.text()
	case n < 6:
		return oneOf[any](g, -1, 0, 1, 2, 7, 100, 1.5, 1e300, -1e-300, json.Number("99999999999999999999"), 4294967296)
	case n < 7:
		return g.chance(2)
	case n < 8 || depth > 4:
		return nil
	case n < 10:
		list := make([]any, g.rng.IntN(4))
		for i := range list {
			list[i] = g.value(depth + 1)
		}
		return list
	}
	m := map[string]any{}
	for range g.rng.IntN(4) {
		m[oneOf(g, "a", "name", "value", "spec", "metadata", "$patch", "$retainKeys", "$setElementOrder/containers", "kind", g.text())] = g.value(depth + 1)
	}
	return m
}

// mutate changes something somewhere in a value.
func (g *generator) mutate(v any) any {
	switch x := v.(type) {
	case map[string]any:
		if len(x) == 0 || g.chance(6) {
			x[oneOf(
				g, "name", "labels", "annotations", "finalizers", "ownerReferences", "generateName", "spec", "status", "suspend",
				"parallelism", "env", "volumes", "extra", g.text(),
			)] = g.value(0)
			return x
		}
		k := oneOf(g, slices.Sorted(maps.Keys(x))...)
		if g.chance(8) {
			delete(x, k)
		} else {
			x[k] = g.mutate(x[k])
		}
		return x
	case []any:
		if len(x) == 0 || g.chance(8) {
			return append(x, g.value(0))
		}
		i := g.rng.IntN(len(x))
		if g.chance(8) {
			return append(x, x[i])
		}
		x[i] = g.mutate(x[i])
		return x
	}
	return g.value(0)
}

// manifest makes an object of a kind.
func (g *generator) manifest(k *kind.Kind, gv schema.GroupVersion) map[string]any {
	m := map[string]any{}
	if examples := manifests[k.GroupResource().String()]; len(examples) > 0 {
		if err := yaml.Unmarshal([]byte(oneOf(g, examples...)), &m); err != nil {
			panic(err)
		}
	}
	m["apiVersion"], m["kind"] = gv.String(), k.Name
	meta, _ := m["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["name"] = g.name()
	if k.Name == "Namespace" {
		meta["name"] = oneOf(g, "h1", "h2", "h1", "h2", "other")
	}
	if g.chance(3) {
		meta["labels"] = map[string]any{"a": oneOf(g, "b", "c")}
	}
	if g.chance(20) {
		meta["finalizers"] = []any{oneOf(g, "example.com/hold", "orphan", "foregroundDeletion", "nope")}
	}
	if g.chance(20) {
		meta["ownerReferences"] = []any{
			map[string]any{
				"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": oneOf(g, "1", "2", ""), "controller": g.chance(2),
				"blockOwnerDeletion": g.chance(2),
			},
		}
	}
	m["metadata"] = meta
	return m
}

// object puts an object into a request: a sound one, one with faults, one of random values, or no object.
func (g *generator) object(r *request, k *kind.Kind, gv schema.GroupVersion) {
	var body []byte
	switch g.rng.IntN(10) {
	case 0:
		obj := k.New().(object)
		g.fill.Fill(obj)
		obj.SetName(g.name())
		obj.SetNamespace("")
		obj.SetResourceVersion("")
		obj.SetManagedFields(nil)
		if job, ok := obj.(*batchv1.Job); ok { // the test is not about a million pods
			job.Spec.Parallelism, job.Spec.Completions = nil, nil
		}
		var err error
		if body, err = runtime.Encode(apischeme.Codecs.EncoderForVersion(g.proto, k.GroupVersion), obj); err != nil {
			body = []byte("k8s\x00")
		}
		r.header.Set("Content-Type", "application/vnd.kubernetes.protobuf")
		if g.chance(4) && len(body) > 8 {
			body[4+g.rng.IntN(len(body)-4)] ^= byte(1 << g.rng.IntN(8))
		}
		r.body = body
		return
	case 1:
		r.body = []byte(
			oneOf(
				g, "", "{", "null", "[]", "{}", `{"kind":"Job"}`, strings.Repeat("[", 20_000),
				`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":{}}}`, g.text(),
			),
		)
		r.header.Set("Content-Type", oneOf(g, "application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "text/plain", ""))
		return
	case 2, 3, 4, 5:
		m := any(g.manifest(k, gv))
		for m = g.mutate(m); g.chance(2); {
			m = g.mutate(m)
		}
		body, _ = json.Marshal(m)
	default:
		body, _ = json.Marshal(g.manifest(k, gv))
	}
	r.body = body
	r.header.Set("Content-Type", "application/json")
	if g.chance(6) {
		if y, err := yaml.JSONToYAML(body); err == nil {
			r.body = y
			r.header.Set("Content-Type", "application/yaml")
		}
	}
}

func (g *generator) patch(r *request, k *kind.Kind, gv schema.GroupVersion) {
	r.header.Set(
		"Content-Type",
		oneOf(
			g, "application/merge-patch+json", "application/strategic-merge-patch+json", "application/json-patch+json",
			"application/apply-patch+yaml", "application/apply-patch+yaml",
		),
	)
	if g.chance(40) {
		r.header.Set("Content-Type", oneOf(g, "application/json", "text/plain", ""))
	}
	if r.header.Get("Content-Type") == "application/json-patch+json" {
		ops := make([]any, 1+g.rng.IntN(4))
		for i := range ops {
			op := map[string]any{
				"op": oneOf(g, "add", "replace", "remove", "test", "copy", "move", "nope"),
				"path": oneOf(
					g, "/metadata/labels/a", "/metadata/labels", "/metadata/finalizers", "/metadata/annotations", "/spec/suspend",
					"/spec/parallelism", "/spec/template/spec/containers/0/image", "/spec/template/spec/containers/-",
					"/status/conditions/-", "/status/active", "/metadata/name", "/metadata/uid", "/kind", "", "/", "nope",
					"/spec/~1~0", "/spec/template/spec/containers/99999999999",
				),
			}
			if g.chance(2) {
				op["value"] = g.value(0)
			}
			if g.chance(3) {
				op["from"] = oneOf(g, "/metadata", "/spec", "/metadata/name", "")
			}
			ops[i] = op
		}
		r.body, _ = json.Marshal(ops)
		return
	}
	var m any
	switch g.rng.IntN(5) {
	case 0:
		m = g.mutate(any(g.manifest(k, gv)))
	case 1:
		m = map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"a": g.value(3)}, "finalizers": oneOf[any](g, nil, []any{}, []any{"example.com/hold"})},
		}
	case 2:
		m = map[string]any{"spec": g.value(0)}
	case 3:
		m = map[string]any{
			"status": map[string]any{
				"phase": oneOf(g, "Running", "Failed", "Nope"), "active": g.value(3),
				"conditions": oneOf[any](
					g, nil, []any{map[string]any{"type": "X", "status": "True"}},
					[]any{map[string]any{"$patch": "delete", "type": "X"}}, g.value(0),
				),
			},
		}
	default:
		m = g.manifest(k, gv)
	}
	r.body, _ = json.Marshal(m)
	if strings.HasPrefix(r.header.Get("Content-Type"), "application/apply") && !strings.Contains(r.path, "?") {
		r.path += "?fieldManager=" + oneOf(g, "m", "n") + oneOf(g, "", "&force=true")
	}
}

func (g *generator) deleteOptions(r *request) {
	if g.chance(2) {
		return
	}
	m := map[string]any{"kind": "DeleteOptions", "apiVersion": "v1"}
	if g.chance(2) {
		m["propagationPolicy"] = oneOf(g, "Orphan", "Background", "Foreground", "Nope")
	}
	if g.chance(2) {
		m["gracePeriodSeconds"] = oneOf[any](g, 0, 1, -1, "x", 1e18)
	}
	if g.chance(5) {
		m["preconditions"] = map[string]any{"uid": g.text(), "resourceVersion": oneOf(g, "1", "x")}
	}
	if g.chance(10) {
		m["dryRun"] = oneOf[any](g, []any{"All"}, []any{"Some"}, "x")
	}
	if g.chance(10) {
		m["ignoreStoreReadErrorWithClusterBreakingPotential"] = true
	}
	r.body, _ = json.Marshal(m)
	r.header.Set("Content-Type", "application/json")
}
