package reach

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Proxy serves .../pods/NAME/proxy/PATH: an HTTP request, which may become a WebSocket, to a server in a pod. NAME is
// [SCHEME:]NAME[:PORT], as in a cluster: a port is a number or the name of a port of a container, and without one it is
// the first port that a container lists, or that of the scheme. As with portforward it is a port of the loopback
// interface in the network of the pod.
type Proxy struct{ *Pods }

var _ rest.Connecter = Proxy{}

func (Proxy) New() apiruntime.Object { return &corev1.PodProxyOptions{} }

func (Proxy) ConnectMethods() []string {
	return []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions,
	}
}

func (Proxy) NewConnectOptions() (apiruntime.Object, bool, string) {
	return &corev1.PodProxyOptions{}, true, "path"
}

func (x Proxy) Connect(ctx context.Context, id string, _ apiruntime.Object, responder rest.Responder) (http.Handler, error) {
	scheme, name, portName, ok := utilnet.SplitSchemeNamePort(id)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%q is not [SCHEME:]NAME[:PORT] of a pod", id))
	}
	pod, err := x.pod(ctx, name)
	if err != nil {
		return nil, err
	}
	port, err := proxiedPort(pod, scheme, portName)
	if err != nil {
		return nil, err
	}
	return x.to(scheme, net.JoinHostPort("localhost", strconv.Itoa(int(port))), responder, func(ctx context.Context) (net.Conn, error) {
		return x.containers.Dial(ctx, pod, port)
	}), nil
}

// to returns what sends a request on to a server, whose address is shown to it and to nobody else.
func (x Proxy) to(
	scheme, host string, responder rest.Responder, dial func(context.Context) (net.Conn, error),
) http.Handler {
	if scheme == "" {
		scheme = "http"
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		base, path := splitProxyPath(r.URL.EscapedPath())
		if path == "" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			// Relative links in the pages of the pod lead below it only with the slash.
			to := url.URL{Path: strings.TrimSuffix(r.URL.Path, "/") + "/", RawPath: base + "/", RawQuery: r.URL.RawQuery}
			http.Redirect(w, r, to.String(), http.StatusMovedPermanently)
			return
		}
		forward(&url.URL{Scheme: scheme, Host: host}, dial, base, path, opensHere(r.Header), responder).ServeHTTP(w, r)
	})
}

// opensHere reports whether a browser is about to show the answer as a page of the API's own origin: the scripts of a pod's
// page could do there whatever a client certificate of the browser allows. What goes through a proxy such as kubectl's, which
// adds X-Forwarded-For, is shown as a page of the proxy.
func opensHere(h http.Header) bool {
	return h.Get("Sec-Fetch-Mode") == "navigate" && h.Get("X-Forwarded-For") == ""
}

// forward returns what sends a request on to a server; the answer becomes a page without scripts if it is shown here.
func forward(
	server *url.URL, dial func(context.Context) (net.Conn, error), base, path string, shownHere bool, responder rest.Responder,
) http.Handler {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		// Nobody vouches for the certificate of a pod, as in a cluster.
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true, DisableCompression: true,
		MaxResponseHeaderBytes: 64 << 10, // they are held here, whatever a pod sends
	}
	return &httputil.ReverseProxy{
		Transport: finalAnswers{transport},
		Rewrite: func(r *httputil.ProxyRequest) {
			to := r.Out.URL
			to.Scheme, to.Host = server.Scheme, server.Host
			to.Path, to.RawPath = "/", ""
			if wanted, err := url.ParseRequestURI("/" + strings.TrimPrefix(path, "/")); err == nil {
				to.Path, to.RawPath = wanted.Path, wanted.RawPath
			}
			r.Out.Host = r.In.Host
			r.SetXForwarded()
			withoutCredentials(r.Out.Header)
		},
		ModifyResponse: func(answer *http.Response) error {
			if err := stayBelow(answer, base); err != nil {
				return err
			}
			withoutOrigin(answer.Header, base)
			if shownHere {
				answer.Header.Add("Content-Security-Policy", "sandbox")
			}
			return nil
		},
		FlushInterval: -1, // at once: somebody may read what is written little by little
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
				return // the client has left
			}
			if leads := (*leadsElsewhere)(nil); errors.As(err, &leads) {
				responder.Error(leads.status())
				return
			}
			responder.Error(apierrors.NewServiceUnavailable(fmt.Sprintf("error trying to reach service: %v", err)))
		},
	}
}

// proxiedPort returns the port of a pod that a request is for.
func proxiedPort(pod *corev1.Pod, scheme, name string) (uint16, error) {
	if number, err := strconv.ParseUint(name, 10, 16); err == nil && number > 0 {
		return uint16(number), nil
	}
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if name == "" || p.Name == name {
				return uint16(p.ContainerPort), nil
			}
		}
	}
	switch {
	case name != "":
		return 0, apierrors.NewBadRequest(fmt.Sprintf("pod %s has no port %q", pod.Name, name))
	case scheme == "https":
		return 443, nil
	}
	return 80, nil
}

// splitProxyPath divides the path of a request, .../pods/NAME/proxy/PATH, before PATH and its slash.
func splitProxyPath(escaped string) (base, path string) {
	rest := escaped
	for range 8 { // the slashes of /api/v1/namespaces/NAMESPACE/pods/NAME/proxy/
		_, after, ok := strings.Cut(rest, "/")
		if !ok {
			return escaped, ""
		}
		rest = after
	}
	at := len(escaped) - len(rest) - 1
	return escaped[:at], escaped[at:]
}

// withoutCredentials takes out of a request what its sender has shown to jobd, or to a proxy before it, and must not show
// to a pod. Cookies are those of the pod's own pages: jobd sets none, and jobctl dashboard passes none on.
func withoutCredentials(h http.Header) {
	for name := range h {
		switch {
		case name == "Authorization", name == "Proxy-Authorization",
			strings.HasPrefix(name, "Impersonate-"), strings.HasPrefix(name, "X-Remote-"):
			delete(h, name)
		}
	}
	const protocols = "Sec-Websocket-Protocol"
	var others []string
	for _, line := range h[protocols] {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); name != "" && !strings.HasPrefix(strings.ToLower(name), tokenProtocol) {
				others = append(others, name)
			}
		}
	}
	if delete(h, protocols); len(others) > 0 {
		h.Set(protocols, strings.Join(others, ", "))
	}
}

// tokenProtocol begins the name of a protocol by which browsers, which can send no header with a WebSocket, show an API
// server their token.
const tokenProtocol = "base64url.bearer.authorization.k8s.io."
