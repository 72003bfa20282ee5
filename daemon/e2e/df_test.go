package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/jobd/jobd/api/diskuse"
	"github.com/jobd/jobd/testdata/images"
)

// The disk is told by image, log, claim and Job, with who uses them, and what images share counts once.
func TestDF(t *testing.T) {
	t.Parallel()
	needContainers(t)
	d := start(t, "--network", "none")
	base := images.NewTree()
	base.Busybox("/bin")
	base.Text("/base", 0o644, noise(3<<20))
	for _, name := range []string{"a:1", "b:1"} {
		top := images.NewTree()
		top.Text("/content", 0o644, name+noise(1<<20))
		d.importImage(images.FromLayers(v1.Config{Env: []string{"PATH=/bin"}}, []string{name}, base, top))
	}
	d.apply(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`)
	d.apply(`
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      volumes:
      - {name: d, persistentVolumeClaim: {claimName: data}}
      - {name: e, emptyDir: {}}
      containers:
      - name: c
        image: a:1
        imagePullPolicy: Never
        command:
        - sh
        - -c
        - head -c 2000000 /dev/zero >/d/x; head -c 3000000 /dev/zero >/e/x; head -c 1000000 /dev/zero | tr '\0' x; echo; echo ready; sleep 1000
        volumeMounts: [{name: d, mountPath: /d}, {name: e, mountPath: /e}]
`)
	d.eventually("it has written", func() error {
		if out, err := d.try("jobctl", nil, "logs", "jobs/train", "--tail", "1"); err != nil || !strings.Contains(out, "ready") {
			return fmt.Errorf("%.200s", out)
		}
		return nil
	})
	var report diskuse.Report
	if err := json.Unmarshal([]byte(d.jobctl("df", "-o", "json")), &report); err != nil {
		t.Fatal(err)
	}
	owners := map[string]diskuse.Owner{}
	var all int64
	for _, use := range report.Uses {
		if use.Kind == "images" {
			all = use.Bytes
		}
		for _, o := range use.Owners {
			owners[use.Kind+" "+o.Name] = o
		}
	}
	a, b := owners["images docker.io/library/a:1"], owners["images docker.io/library/b:1"]
	for _, i := range []diskuse.Owner{a, b} {
		// Each has 4 MB, as it came and unpacked, and 3 of them are the other's too.
		if alone := i.Bytes - i.Shared; i.Shared < 6<<20 || alone < 2<<20 || alone > 3<<20 || i.Bytes > all {
			t.Errorf("%+v of %d", i, all)
		}
	}
	if all > a.Bytes+b.Bytes+owners["images docker.io/library/busybox:1.36"].Bytes-6<<20+8<<20 {
		t.Errorf("all images take %d: %+v", all, owners)
	}
	if !slices.Equal(a.UsedBy, []string{"jobs/default/train"}) || b.UserCount != 0 {
		t.Errorf("%+v %+v", a, b)
	}
	if claim := owners["claims persistentvolumeclaims/default/data"]; claim.Bytes < 2_000_000 || !slices.Equal(claim.UsedBy, []string{"jobs/default/train"}) {
		t.Errorf("%+v", claim)
	}
	if log := owners["logs jobs/default/train"]; log.Bytes < 1_000_000 {
		t.Errorf("%+v", log)
	}
	if len(report.Jobs) != 1 || report.Jobs[0].Name != "default/train" || report.Jobs[0].Kinds["volumes of pods"] < 3_000_000 ||
		report.Jobs[0].Bytes < 4_000_000 {
		t.Errorf("%+v", report.Jobs)
	}
	if out := d.jobctl("df"); !strings.Contains(out, "used by jobs/default/train") {
		t.Errorf("%s", out)
	}
	if out := d.jobctl("df", "--by-job"); !strings.Contains(out, "default/train") || !strings.Contains(out, "volumes of pods 3.") {
		t.Errorf("%s", out)
	}
}
