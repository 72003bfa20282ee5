package main

import (
	"strings"
	"testing"
)

// rowsOf makes rows in which one column has the values that of returns for each row, and all others stay the same.
func rowsOf(n int, name string, of func(i int) float64) (rows []row) {
	for i := range n {
		r := row{values: map[string]float64{}, probes: []float64{20, 21, 22}}
		for _, c := range columns {
			r.values[c.name] = 100
		}
		r.values[name] = of(i)
		rows = append(rows, r)
	}
	return rows
}

func TestTheVerdictNamesWhatGrows(t *testing.T) {
	const n = 200
	for rule, c := range map[string]struct {
		column string
		of     func(i int) float64
		want   string
	}{
		"all is flat":              {goroutines, func(int) float64 { return 100 }, ""},
		"noise is not growth":      {goroutines, func(i int) float64 { return 100 + float64(i%7) }, ""},
		"a slow leak":              {goroutines, func(i int) float64 { return 100 + float64(i)/2 }, goroutines},
		"growth in the warm-up":    {daemonMemory, func(i int) float64 { return min(50+float64(i)*5, 100) }, ""},
		"one bad row":              {cgroups, func(i int) float64 { return 100 + float64(i/(n-1))*1000 }, ""},
		"fewer pods a second":      {rate, func(i int) float64 { return 100 - float64(i)/3 }, rate},
		"more pods a second":       {rate, func(i int) float64 { return 100 + float64(i) }, ""},
		"below what is documented": {database, func(i int) float64 { return 20 + float64(i)/2 }, ""},
		"beyond it":                {database, func(i int) float64 { return 20 + float64(i) }, database},
		"what is not compared":     {machineSlab, func(i int) float64 { return float64(i) }, ""},
	} {
		t.Run(rule, func(t *testing.T) {
			rows := rowsOf(n, c.column, c.of)
			err := newReport(rows, rows[0], rows[0]).verdict()
			if (err == nil) != (c.want == "") {
				t.Fatalf("verdict: %v", err)
			}
			if err != nil && (!strings.HasPrefix(err.Error(), c.want+":") || strings.Count(err.Error(), "\n") > 0) {
				t.Errorf("verdict: %v, want only %q", err, c.want)
			}
		})
	}
}

func TestTheVerdictNamesWhatIsLeft(t *testing.T) {
	rows := rowsOf(2*tenths, cgroups, func(int) float64 { return 100 })
	after := rowsOf(1, cgroups, func(int) float64 { return 101 })[0]
	if err := newReport(rows, rows[0], after).verdict(); err == nil || !strings.HasPrefix(err.Error(), cgroups+": 101 are left") {
		t.Errorf("verdict: %v", err)
	}
}

func TestEachColumnIsMeasuredOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range columns {
		if seen[c.name] {
			t.Errorf("%s is there twice", c.name)
		}
		seen[c.name] = true
	}
}

func TestMetricsAreSums(t *testing.T) {
	got := readMetrics("# HELP a x\na{b=\"c d\"} 1\na{b=\"}\"} 2.5\nother 7\n")
	if len(got) != 2 || got["a"] != 3.5 || got["other"] != 7 {
		t.Errorf("metrics: %v", got)
	}
}
