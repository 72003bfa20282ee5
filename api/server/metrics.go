package server

import "github.com/prometheus/client_golang/prometheus"

// Register adds metrics of how the API is shared among clients to a registry, until unregister is called.
func (s *Server) Register(r prometheus.Registerer) (unregister func(), err error) {
	listeners := entrances{s.local, s.remote, s.pods}
	if s.users != nil {
		listeners = append(listeners, s.users)
	}
	if s.config.MultiKueue {
		listeners = append(listeners, s.managers)
	}
	all := []prometheus.Collector{
		listeners,
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "jobd_api_panics_total",
			Help: "Requests that have met a fault of jobd, which its log has with a stack.",
		}, func() float64 { return float64(s.panics.count.Load()) }),
	}
	unregister = func() {
		for _, c := range all {
			r.Unregister(c)
		}
	}
	for _, c := range all {
		if err := r.Register(c); err != nil {
			unregister()
			return nil, err
		}
	}
	return unregister, nil
}

var (
	servedDesc = prometheus.NewDesc("jobd_api_requests_served",
		"Requests that hold a place, by the listener and the kind of request.", []string{"listener", "kind"}, nil)
	waitingDesc = prometheus.NewDesc("jobd_api_requests_waiting",
		"Requests that wait for a place.", []string{"listener", "kind"}, nil)
	refusedDesc = prometheus.NewDesc("jobd_api_requests_refused_total",
		"Requests that were answered with 429, because their client has its share of places or there are none.", []string{"listener", "kind"}, nil)
	heldDesc = prometheus.NewDesc("jobd_api_held_bytes",
		"Bytes of objects and bodies that requests hold.", []string{"listener"}, nil)
	heldRefusedDesc = prometheus.NewDesc("jobd_api_held_refused_total",
		"Requests that were answered with 429, because they would have held too many bytes.", []string{"listener"}, nil)
	unreadDesc = prometheus.NewDesc("jobd_api_unread_bytes",
		"Bytes of large events of watches that their clients have not read.", []string{"listener"}, nil)
	unreadRefusedDesc = prometheus.NewDesc("jobd_api_unread_refused_total",
		"Watches that were ended with 429, because their client has read too little of them.", []string{"listener"}, nil)
	openDesc = prometheus.NewDesc("jobd_api_connections",
		"Open connections of clients; idle are those on which no request is served.", []string{"listener", "idle"}, nil)
	closedDesc = prometheus.NewDesc("jobd_api_connections_closed_total",
		"Idle connections that were closed to make room, and new ones of a peer that opens too many a second.", []string{"listener"}, nil)
)

// entrances collects the metrics of each.
type entrances []*entrance

func (entrances) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		servedDesc, waitingDesc, refusedDesc, heldDesc, heldRefusedDesc, unreadDesc, unreadRefusedDesc, openDesc, closedDesc,
	} {
		ch <- d
	}
}

func (all entrances) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	for _, f := range all {
		for kind, places := range f.shares.All() {
			held, waiting, refused := places.Figures()
			gauge(servedDesc, held, f.name, kind)
			gauge(waitingDesc, waiting, f.name, kind)
			counter(refusedDesc, refused, f.name, kind)
		}
		held, refused := f.shares.Held()
		gauge(heldDesc, held, f.name)
		counter(heldRefusedDesc, refused, f.name)
		unread, ended := f.shares.Unread()
		gauge(unreadDesc, unread, f.name)
		counter(unreadRefusedDesc, ended, f.name)
		open, idle, closed := f.connections.Figures()
		gauge(openDesc, open-idle, f.name, "false")
		gauge(openDesc, idle, f.name, "true")
		counter(closedDesc, closed, f.name)
	}
}
