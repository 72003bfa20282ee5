package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/database"
	"github.com/jobd/jobd/store"
)

func TestDatabaseIsLookedAfterOverTheSocketAlone(t *testing.T) {
	ts := startServer(t)
	mustMake(t, ts.client(t).BatchV1().Jobs("default"), newJob("a"))
	var is database.Description
	if err := json.Unmarshal([]byte(ts.mustDo(t, "GET", database.Path, "", 200)), &is); err != nil ||
		is.File != ts.store.Path() || is.Version != ts.store.Version() {
		t.Errorf("%+v: %v", is, err)
	}
	ts.mustDo(t, "POST", database.Path+"?op=check", "", 200)
	var sizes database.Sizes
	if err := json.Unmarshal([]byte(ts.mustDo(t, "POST", database.Path+"?op=compact", "", 200)), &sizes); err != nil ||
		sizes.After == 0 || sizes.After > sizes.Before {
		t.Errorf("%+v: %v", sizes, err)
	}
	for _, wrong := range []string{
		"POST " + database.Path, "GET " + database.Path + "?op=check", "DELETE " + database.Path,
		"POST " + database.Path + "?op=drop",
	} {
		method, path, _ := strings.Cut(wrong, " ")
		ts.mustDo(t, method, path, "", 400)
	}
	if !strings.Contains(ts.log.String(), "path="+database.Path) {
		t.Error("a compaction is not logged")
	}

	// An administrator does not even find it over the network.
	client := ts.network(t)
	for _, method := range []string{"GET", "POST"} {
		r, err := http.NewRequestWithContext(t.Context(), method, "https://"+ts.tls.String()+database.Path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+ts.adminToken)
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s over TLS: %d", method, resp.StatusCode)
		}
	}
}

// TestBackupUnderWrites takes copies while others write: each is sound and shows one moment of the original.
func TestBackupUnderWrites(t *testing.T) {
	ts := startServer(t)
	jobs := ts.client(t).BatchV1().Jobs("default")
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 3 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				name := fmt.Sprintf("j-%d-%d", w, i)
				if _, err := jobs.Create(t.Context(), newJob(name), metav1.CreateOptions{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	last := uint64(0)
	for i := range 5 {
		for ts.store.Version() < last+20 { // something is written between two copies
			time.Sleep(time.Millisecond)
		}
		before := ts.store.Version()
		copied := ts.mustDo(t, "GET", database.Path+"?op=backup", "", 200)
		path := filepath.Join(t.TempDir(), fmt.Sprint(i))
		if err := os.WriteFile(path, []byte(copied), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := store.Open(path, store.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		last = c.Version()
		if last < before { // a View that follows shows that it is not of the future
			t.Errorf("the copy is of version %d, asked for after %d", last, before)
		}
		same := func(sn *store.Snapshot) error {
			return c.View(func(copied *store.Snapshot) error {
				then, err := sn.At(last, "")
				if err != nil {
					return err
				}
				if a, b := copied.Count(""), then.Count(""); a != b {
					t.Errorf("%d objects, there were %d", a, b)
				}
				copied.Range("", "", func(o store.Object) bool {
					if was, ok := then.Get(o.Key); !ok || was.Version != o.Version || !bytes.Equal(was.Value, o.Value) {
						t.Errorf("%s differs", o.Key)
					}
					return true
				})
				return nil
			})
		}
		if err := ts.store.View(same); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	writers.Wait()
}

// TestABackupThatNobodyReadsStopsNobody leaves a copy half read while everything else goes on, except for a compaction,
// which waits for it.
func TestABackupThatNobodyReadsStopsNobody(t *testing.T) {
	ts := startServer(t)
	jobs := ts.client(t).BatchV1().Jobs("default")
	for i := range 20 {
		big := newJob(fmt.Sprint("big-", i))
		big.Annotations = map[string]string{"x": strings.Repeat("x", 200_000)}
		mustMake(t, jobs, big)
	}
	conn, err := net.Dial("unix", ts.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s?op=backup HTTP/1.0\r\n\r\n", database.Path)
	if _, err := io.ReadFull(conn, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	compacted := make(chan int)
	go func() {
		code, _ := ts.do(t, "POST", database.Path+"?op=compact", "", "")
		compacted <- code
	}()
	for i := range 20 {
		mustMake(t, jobs, newJob(fmt.Sprint("j-", i)))
	}
	select {
	case <-compacted:
		t.Error("compacted while the file is read")
	default:
	}
	_ = conn.Close()
	if code := <-compacted; code != 200 {
		t.Error(code)
	}
}
