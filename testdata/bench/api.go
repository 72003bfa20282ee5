package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
	tableType    = "application/json;as=Table;v=v1;g=meta.k8s.io"
)

// spike is what the prototype of the API did on this kind of machine, without a control loop behind it.
type spike struct{ least, most float64 }

func (s spike) String() string {
	if s.least == s.most {
		return fmt.Sprintf("%.0f", s.least)
	}
	return fmt.Sprintf("%.0f-%.0f", s.least, s.most)
}

func (s spike) ratio(v float64) string { return fmt.Sprintf("%.2f", v/((s.least+s.most)/2)) }

// api compares the API, with the control loop behind it, with the prototype of the API alone.
func (b *bench) api(ctx context.Context) error {
	d, err := b.start(ctx, "--runtime", "simulated")
	if err != nil {
		return err
	}
	defer d.close()
	if err := b.requests(ctx, d); err != nil {
		return err
	}
	if err := b.lists(ctx, d); err != nil {
		return err
	}
	return b.fanOut(ctx, d)
}

// requests measures clients that wait for each answer.
func (b *bench) requests(ctx context.Context, d *daemon) error {
	b.report.table("The API: suspended Jobs, by clients that wait for each answer", "request", "form", "clients", "per s", "CPU us", "prototype per s", "ratio")
	for _, c := range []struct {
		verb, form string
		clients, n int
		spike      spike
	}{
		{"create", protobufType, 1, 500, spike{625, 795}},
		{"create", protobufType, 8, 2000, spike{1531, 1806}},
		{"create", jsonType, 1, 500, spike{625, 795}},
		{"create", jsonType, 8, 2000, spike{1531, 1806}},
		{"get", protobufType, 1, 2000, spike{3700, 3700}},
		{"get", jsonType, 1, 2000, spike{3700, 3700}},
	} {
		client, err := d.Connect(c.form)
		if err != nil {
			return err
		}
		jobs := client.BatchV1().Jobs("default")
		before, begin := d.self(), time.Now()
		var next atomic.Int64
		var failed atomic.Value
		var group sync.WaitGroup
		for range c.clients {
			group.Go(func() {
				for i := next.Add(1); i <= int64(c.n); i = next.Add(1) {
					var err error
					if c.verb == "get" {
						_, err = jobs.Get(ctx, fmt.Sprintf("job-%d-%d-%s", i%500+1, 1, short(c.form)), metav1.GetOptions{})
					} else {
						j := job(fmt.Sprintf("job-%d-%d-%s", i, c.clients, short(c.form)), 1, 1, "true")
						j.Spec.Suspend = ptr.To(true)
						_, err = jobs.Create(ctx, j, metav1.CreateOptions{})
					}
					if err != nil {
						failed.Store(err)
						return
					}
				}
			})
		}
		group.Wait()
		if err, ok := failed.Load().(error); ok {
			return err
		}
		rate := float64(c.n) / time.Since(begin).Seconds()
		cpu := (d.self().CPU - before.CPU) / float64(c.n) * 1e6
		b.report.figure(fmt.Sprintf("API/%s/form=%s/clients=%d", c.verb, short(c.form), c.clients), []float64{rate}, "requests/s")
		b.report.row(c.verb, short(c.form), fmt.Sprint(c.clients), fmt.Sprintf("%.0f", rate), fmt.Sprintf("%.0f", cpu), c.spike.String(), c.spike.ratio(rate))
	}
	return nil
}

func short(form string) string {
	switch form {
	case protobufType:
		return "protobuf"
	case tableType:
		return "table"
	}
	return "json"
}

// lists measures lists of the 5,000 Jobs that exist by now.
func (b *bench) lists(ctx context.Context, d *daemon) error {
	b.report.table("The API: a list of 5,000 Jobs", "form", "ms", "CPU ms", "MB", "prototype ms", "ratio")
	for _, c := range []struct {
		form  string
		spike spike
	}{{protobufType, spike{50, 84}}, {jsonType, spike{82, 110}}, {tableType, spike{95, 111}}} {
		var ms []float64
		var size int64
		before := d.self()
		const rounds = 5
		for range rounds {
			begin := time.Now()
			body, err := d.open(ctx, "/apis/batch/v1/namespaces/default/jobs", c.form)
			if err != nil {
				return err
			}
			size, err = io.Copy(io.Discard, body)
			body.Close()
			if err != nil {
				return err
			}
			ms = append(ms, time.Since(begin).Seconds()*1000)
		}
		cpu := (d.self().CPU - before.CPU) / rounds * 1000
		b.report.figure("API/list/form="+short(c.form), ms, "ms")
		b.report.row(
			short(c.form), spread(ms, "%.0f"), fmt.Sprintf("%.0f", cpu), fmt.Sprintf("%.1f", float64(size)/1e6), c.spike.String(),
			c.spike.ratio(median(ms)),
		)
	}
	return nil
}

// fanOut measures one Job that changes while many clients watch.
func (b *bench) fanOut(ctx context.Context, d *daemon) error {
	b.report.table("The API: changes of a Job that many watch", "form", "watchers", "changes", "events per s", "CPU us an event")
	const changes, probe = 300, "job-1-1-json"
	jobs := d.BatchV1().Jobs("default")
	for _, form := range []string{protobufType, jsonType} {
		for _, watchers := range []int{1, 10, 100} {
			at, err := jobs.Get(ctx, probe, metav1.GetOptions{})
			if err != nil {
				return err
			}
			var group sync.WaitGroup
			var failed atomic.Value
			watching, stop := context.WithCancel(ctx)
			for range watchers {
				body, err := d.open(
					watching,
					"/apis/batch/v1/namespaces/default/jobs?watch=1&fieldSelector=metadata.name="+probe+"&resourceVersion="+at.ResourceVersion,
					form,
				)
				if err != nil {
					stop()
					return err
				}
				group.Go(func() {
					defer body.Close()
					if err := readEvents(bufio.NewReader(body), form, changes); err != nil {
						failed.Store(err)
					}
				})
			}
			before, begin := d.self(), time.Now()
			for i := range changes {
				patch := fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d-%d-%s"}}}`, i, watchers, short(form))
				if _, err := jobs.Patch(ctx, probe, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
					stop()
					return err
				}
			}
			group.Wait()
			took, cpu := time.Since(begin), d.self().CPU-before.CPU
			stop()
			if err, ok := failed.Load().(error); ok {
				return err
			}
			events := float64(watchers * changes)
			b.report.figure(fmt.Sprintf("API/watch/form=%s/watchers=%d", short(form), watchers), []float64{events / took.Seconds()}, "events/s")
			b.report.row(
				short(form), fmt.Sprint(watchers), fmt.Sprint(changes), fmt.Sprintf("%.0f", events/took.Seconds()),
				fmt.Sprintf("%.0f", cpu/events*1e6),
			)
		}
	}
	return nil
}

// readEvents reads that many events: lines of JSON, or frames of protobuf that begin with their size.
func readEvents(from *bufio.Reader, form string, n int) error {
	for range n {
		if form == jsonType {
			for {
				_, err := from.ReadSlice('\n')
				if err == nil {
					break
				} else if err != bufio.ErrBufferFull {
					return err
				}
			}
			continue
		}
		size := 0
		for range 4 {
			c, err := from.ReadByte()
			if err != nil {
				return err
			}
			size = size<<8 | int(c)
		}
		if _, err := from.Discard(size); err != nil {
			return err
		}
	}
	return nil
}

// open sends a GET and returns the body of the answer.
func (d *daemon) open(ctx context.Context, path, accept string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://jobd"+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", accept)
	r.Header.Set("Accept-Encoding", "identity")
	answer, err := (&http.Transport{DialContext: d.Dial, DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		return nil, fmt.Errorf("%s: %s", path, answer.Status)
	}
	return answer.Body, nil
}
