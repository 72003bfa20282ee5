package controltest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
)

// Figures returns counters, gauges and the counts of histograms by name{values of labels}.
func (w *World) Figures() map[string]float64 {
	w.T.Helper()
	synctest.Wait()
	r := prometheus.NewRegistry()
	if _, err := w.Metrics.Register(r); err != nil {
		w.T.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		w.T.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetValue())
			}
			all[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = m.GetCounter().GetValue() + m.GetGauge().GetValue() +
				float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

// WantFigures checks some of the Figures.
func (w *World) WantFigures(figures map[string]float64) {
	w.T.Helper()
	got := w.Figures()
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		if got[name] != figures[name] {
			w.T.Errorf("%s is %v, want %v", name, got[name], figures[name])
		}
	}
	if w.T.Failed() {
		w.T.Log(fmt.Sprint(got))
	}
}
