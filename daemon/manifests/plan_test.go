package manifests

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/history"
)

func job(name string) Ref  { return Ref{Group: "batch", Kind: "Job", Namespace: "default", Name: name} }
func conf(name string) Ref { return Ref{Kind: "ConfigMap", Namespace: "default", Name: name} }

func TestDecide(t *testing.T) {
	there := Live{Exists: true, Ours: true, UID: "u"}
	with := func(l Live, change func(*Live)) Live {
		change(&l)
		return l
	}
	for rule, c := range map[string]struct {
		of    Ref
		known Record
		live  Live
		anew  bool
		want  Action
	}{
		"what is new":                          {of: conf("a"), want: Apply},
		"what is as it was":                    {of: conf("a"), known: Record{Hash: "h"}, live: there, want: Nothing},
		"what is as it was, at the start":      {of: conf("a"), known: Record{Hash: "h"}, live: there, anew: true, want: Apply},
		"what has changed":                     {of: conf("a"), known: Record{Hash: "g"}, live: there, want: Apply},
		"what somebody has removed":            {of: conf("a"), known: Record{Hash: "h"}, want: Apply},
		"what others have made":                {of: conf("a"), live: Live{Exists: true}, want: Refuse},
		"a namespace that others have made":    {of: Ref{Kind: "Namespace", Name: "a"}, live: Live{Exists: true}, want: Apply},
		"what is being deleted":                {of: conf("a"), live: with(there, func(l *Live) { l.Deleting = true }), want: Wait},
		"a new Job":                            {of: job("a"), want: Apply},
		"a Job that runs":                      {of: job("a"), known: Record{Hash: "h"}, live: there, anew: true, want: Nothing},
		"a Job that has run and is gone":       {of: job("a"), known: Record{Hash: "h"}, anew: true, want: Nothing},
		"a Job that has run, and has changed":  {of: job("a"), known: Record{Hash: "g"}, live: with(there, func(l *Live) { l.Finished = true }), want: Replace},
		"a Job that is gone, and has changed":  {of: job("a"), known: Record{Hash: "g"}, want: Apply},
		"a Job that runs, and has changed":     {of: job("a"), known: Record{Hash: "g"}, live: with(there, func(l *Live) { l.Runs = true }), want: Apply},
		"a Job that was applied before a kill": {of: job("a"), known: Record{Begun: "h"}, live: with(there, func(l *Live) { l.Hash = "h" }), want: Remember},
		"a Job that has ended before a kill": {
			of: job("a"), known: Record{Begun: "h"}, live: with(there, func(l *Live) { l.Hash, l.Finished = "h", true }), want: Remember,
		},
		"a Job that has run and gone before a kill": {of: job("a"), known: Record{Begun: "h"}, live: Live{RanSince: true}, want: Remember},
		"one that has changed since":                {of: job("a"), known: Record{Begun: "g"}, live: Live{RanSince: true}, want: Apply},
		"a kill before it was applied":              {of: job("a"), known: Record{Begun: "h"}, want: Apply},
		"a Job that others have made":               {of: job("a"), live: Live{Exists: true, Finished: true}, want: Refuse},
	} {
		if got := Decide(&Object{Ref: c.of, Hash: "h"}, c.known, c.live, c.anew); got != c.want {
			t.Errorf("%s: %s, want %s", rule, got, c.want)
		}
	}
	for rule, c := range map[string]struct {
		of   Ref
		runs bool
		want Action
	}{
		"a Job of which something runs": {job("a"), true, Wait},
		"one of which nothing does":     {job("a"), false, Replace},
		"an immutable ConfigMap":        {conf("a"), false, Refuse},
	} {
		if got := Immutable(&Object{Ref: c.of}, Live{Runs: c.runs}); got != c.want {
			t.Errorf("%s: %s, want %s", rule, got, c.want)
		}
	}
}

func TestRunsOfAManifest(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 500, time.UTC)
	begun := Record{Ref: job("a"), UID: "former", At: at}
	ours := map[string]string{PartOf: SetID}
	for rule, c := range map[string]struct {
		job  history.Job
		want bool
	}{
		"by whoever it is said to be created": {history.Job{UID: "u", User: "somebody", Labels: ours, Created: metav1.NewTime(at)}, true},
		"by nobody who is known":              {history.Job{UID: "u", Labels: ours, Created: metav1.NewTime(at.Add(time.Hour))}, true},
		"in the same second":                  {history.Job{UID: "u", Labels: ours, Created: metav1.NewTime(at.Truncate(time.Second))}, true},
		"whose labels were too long":          {history.Job{UID: "u", Created: metav1.NewTime(at)}, true},
		"that others have made":               {history.Job{UID: "u", User: Manager, Labels: map[string]string{"a": "b"}, Created: metav1.NewTime(at)}, false},
		"the one before it":                   {history.Job{UID: "former", Labels: ours, Created: metav1.NewTime(at)}, false},
		"an earlier one":                      {history.Job{UID: "u", Labels: ours, Created: metav1.NewTime(at.Add(-time.Second))}, false},
	} {
		if got := isRunOf(begun, &c.job); got != c.want {
			t.Errorf("%s: %v", rule, got)
		}
	}
}

func TestRemoves(t *testing.T) {
	ours := Live{Exists: true, Ours: true, UID: "u"}
	for rule, c := range map[string]struct {
		known Record
		live  Live
		want  bool
	}{
		"what was applied":                   {Record{Ref: conf("a"), UID: "u"}, ours, true},
		"of which nobody noted the UID":      {Record{Ref: conf("a")}, ours, true},
		"another one of the name":            {Record{Ref: conf("a"), UID: "v"}, ours, false},
		"without the label":                  {Record{Ref: conf("a"), UID: "u"}, Live{Exists: true, UID: "u"}, false},
		"what is gone":                       {Record{Ref: conf("a"), UID: "u"}, Live{}, false},
		"a namespace, with what is in it":    {Record{Ref: Ref{Kind: "Namespace", Name: "a"}, UID: "u"}, ours, false},
		"a kind of that name of others' own": {Record{Ref: Ref{Group: "x", Kind: "Namespace", Name: "a"}, UID: "u"}, ours, true},
	} {
		if got := Removes(c.known, c.live); got != c.want {
			t.Errorf("%s: %v", rule, got)
		}
	}
}

// Whatever the files are: each object is wanted once, what is wanted is not removed, and nothing while a file cannot be read: it may
// have moved there.
func TestPlansKeepWhatIsNotKnownToBeGone(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var files []File
		bad := map[string]bool{}
		for i := range r.IntN(4) {
			f := File{Name: fmt.Sprint("f", i)}
			if r.IntN(4) == 0 {
				f.Err = errors.New("a syntax error")
				bad[f.Name] = true
			} else {
				for range r.IntN(4) {
					f.Objects = append(f.Objects, Object{Ref: job(fmt.Sprint(r.IntN(6))), File: f.Name})
				}
			}
			files = append(files, f)
		}
		var known []Record
		for i := range 6 {
			if r.IntN(2) == 0 {
				known = append(known, Record{Ref: job(fmt.Sprint(i)), File: fmt.Sprint("f", r.IntN(4))})
			}
		}
		wanted, gone, problems := Plan(files, known)
		seen := map[Ref]bool{}
		for _, o := range wanted {
			if seen[o.Ref] {
				t.Fatalf("%s is wanted twice", o.Ref)
			}
			seen[o.Ref] = true
		}
		for _, k := range known {
			is := slices.Contains(gone, k)
			if want := !seen[k.Ref] && len(bad) == 0; is != want {
				t.Fatalf("%s of %s: removed %v, want %v", k.Ref, k.File, is, want)
			}
		}
		if len(bad) > len(problems) {
			t.Fatalf("%d problems, and %d files cannot be read", len(problems), len(bad))
		}
	}
}

// What others need comes first, and goes last.
func TestOrder(t *testing.T) {
	in := []Ref{job("a"), {Group: "batch", Kind: "CronJob", Namespace: "x", Name: "c"}, conf("a"), {Kind: "Namespace", Name: "x"}}
	f := File{Name: "f"}
	var known []Record
	for _, ref := range in {
		f.Objects = append(f.Objects, Object{Ref: ref})
		known = append(known, Record{Ref: ref, File: "g"})
	}
	wanted, _, _ := Plan([]File{f}, nil)
	_, gone, _ := Plan(nil, known)
	for i, kind := range []string{"Namespace", "ConfigMap", "CronJob", "Job"} {
		if wanted[i].Kind != kind || gone[len(gone)-1-i].Kind != kind {
			t.Errorf("at %d: %s and %s, want %s", i, wanted[i].Kind, gone[len(gone)-1-i].Kind, kind)
		}
	}
}
