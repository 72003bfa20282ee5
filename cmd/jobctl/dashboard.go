package main

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/jobd/jobd/api/dashboard"
)

// dashboardOptions are the flags of jobctl dashboard.
type dashboardOptions struct {
	genericiooptions.IOStreams
	address string
	port    uint16
	open    bool
	// namespace is that of the context, which the page falls back to.
	namespace string
}

// newDashboardCommand makes the command that shows the daemon's page in a browser.
func newDashboardCommand(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	o := &dashboardOptions{IOStreams: streams}
	cmd := &cobra.Command{
		Use:                   "dashboard [--port PORT] [--address ADDRESS] [--open=false]",
		DisableFlagsInUseLine: true,
		Short:                 "Look at Jobs in a browser",
		Long: `Look at Jobs in a browser. The command prints a link to the daemon's page, opens it if there is a desktop, and serves the page until you press Ctrl-C.

The link works once, for one browser: its token is exchanged for a cookie, which ends with the command. The page acts with your own credentials, like any other command. Only loopback addresses are served. To look at the jobd of another machine, run it on your own with --socket ssh://HOST; or run it there with --port 8080, and forward that port with "ssh -L 8080:127.0.0.1:8080".`,
		Example: `  # Open the page in the browser
  jobctl dashboard

  # On a server: print the link only, for a port that ssh forwards
  jobctl dashboard --port 8080 --open=false`,
		Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			config, err := f.ToRESTConfig()
			cmdutil.CheckErr(err)
			ctx, stop := signal.NotifyContext(contextOf(cmd), os.Interrupt, syscall.SIGTERM)
			defer stop()
			o.namespace, _, err = f.ToRawKubeConfigLoader().Namespace()
			cmdutil.CheckErr(err)
			cmdutil.CheckErr(o.run(ctx, config))
		},
	}
	cmd.Flags().StringVar(&o.address, "address", "127.0.0.1", "The loopback address to serve the page at")
	cmd.Flags().Uint16Var(&o.port, "port", 0, "The port to serve the page at; 0 takes a free one")
	cmd.Flags().BoolVar(&o.open, "open", true, "Open the link in the browser, if there is a desktop")
	return cmd
}

func (o *dashboardOptions) run(ctx context.Context, config *rest.Config) error {
	address, err := netip.ParseAddr(o.address)
	if err != nil || !address.IsLoopback() {
		return fmt.Errorf(
			"--address %q: must be a loopback address such as 127.0.0.1 or ::1; to reach the page from elsewhere use \"jobd serve --listen\" or \"ssh -L\"",
			o.address,
		)
	}
	api, err := dashboardProxy(ctx, config)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(o.address, strconv.Itoa(int(o.port))))
	if err != nil {
		return err
	}
	link := dashboard.NewLink(l.Addr().String(), api)
	link.Namespace = o.namespace
	server := &http.Server{Handler: link, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	fmt.Fprintf(o.Out, "The page is at %s\nThe link works once. Press Ctrl-C to end it.\n", link.URL())
	if o.open {
		remove, err := openBrowser(link.URL())
		defer remove()
		if err != nil {
			fmt.Fprintf(o.ErrOut, "Warning: cannot open a browser: %v\n", err)
		}
	}
	select {
	case err = <-failed:
	case <-ctx.Done():
		err = server.Close() // watches and logs would go on for ever
		<-failed
	}
	return err
}

// dashboardProxy sends requests on to the server, with the credentials of the configuration. It fails if the server has
// no page.
func dashboardProxy(ctx context.Context, config *rest.Config) (http.Handler, error) {
	to, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	to = &url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	ask, err := http.NewRequestWithContext(ctx, http.MethodHead, to.JoinPath(dashboard.Path).String(), nil)
	if err != nil {
		return nil, err
	}
	answer, err := transport.RoundTrip(ask)
	if err != nil {
		return nil, err
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New("the server has no dashboard: it is not jobd, or an older one")
	}
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:     transport,
		FlushInterval: -1, // watches and logs come as they are written
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "jobd does not answer: "+err.Error(), http.StatusBadGateway)
		},
	}, nil
}

var toPage = template.Must(template.New("").Parse(
	`<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={{.}}"><title>jobd</title>`))

// openBrowser opens a link on the desktop, if there is one. Everybody on the machine can read the arguments of a program,
// so the browser gets a file that only its user can read. remove removes the file.
func openBrowser(link string) (remove func(), err error) {
	remove = func() {}
	opener, arguments := "xdg-open", []string(nil)
	switch runtime.GOOS {
	case "darwin":
		opener = "open"
	case "windows":
		opener, arguments = "rundll32", []string{"url.dll,FileProtocolHandler"}
	default:
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return remove, nil // there is no desktop
		}
	}
	if opener, err = exec.LookPath(opener); err != nil {
		return remove, nil
	}
	dir, err := os.MkdirTemp("", "jobctl-dashboard-")
	if err != nil {
		return remove, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	file, err := os.OpenFile(filepath.Join(dir, "open.html"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return remove, err
	}
	if err := errors.Join(toPage.Execute(file, link), file.Close()); err != nil {
		return remove, err
	}
	cmd := exec.Command(opener, append(arguments, file.Name())...)
	if err := cmd.Start(); err != nil {
		return remove, err
	}
	go func() { _ = cmd.Wait() }()
	return remove, nil
}
