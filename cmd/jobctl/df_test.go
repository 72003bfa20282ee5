package main

import (
	"bytes"
	"testing"

	"github.com/jobd/jobd/api/diskuse"
)

func TestDFIsPrinted(t *testing.T) {
	report := &diskuse.Report{
		Root: "/r", Size: 2000, Free: 1000,
		Uses: []diskuse.Use{{
			Kind: "images", Bytes: 900, Bound: "a setting", Count: 4, Owners: []diskuse.Owner{
				{Name: "a:1, b:1", Bytes: 500, Shared: 100, UsedBy: []string{"cronjobs/n/c", "jobs/n/a", "jobs/n/b"}, UserCount: 30},
				{Name: "c:1", Bytes: 300}, {Name: "d:1", Bytes: 10}, {Name: "e:1", Bytes: 1},
			},
		}, {Kind: "logs", Bytes: 10, Bound: "another"}},
		Jobs:     []diskuse.Job{{Name: "n/a", Bytes: 15, Kinds: map[string]int64{"logs": 10, "kept logs": 5, "kept files": 0}}},
		JobCount: 2,
	}
	for _, c := range []struct {
		rule    string
		options dfOptions
		want    string
	}{
		{"by kind", dfOptions{}, `WHAT           SIZE   SHARED   BOUND, OR WHO USES IT
images         900B            a setting
  a:1, b:1     500B   100B     used by cronjobs/n/c, jobs/n/a and 28 more
  c:1          300B            
  d:1          10B             
  and 1 more                   
logs           10B             another
all of it      910B            1.0kB of 2.0kB are free at /r
`},
		{"by Job", dfOptions{byJob: true}, `JOB          SIZE   OF WHICH
n/a          15B    kept logs 5B, logs 10B
and 1 more          
`},
	} {
		out := &bytes.Buffer{}
		print := c.options.print
		if c.options.byJob {
			print = c.options.printJobs
		}
		if err := print(out, report); err != nil || out.String() != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.rule, err, out, c.want)
		}
	}
}
