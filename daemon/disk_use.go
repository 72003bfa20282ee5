package daemon

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/jobd/jobd/daemon/config"
	"github.com/jobd/jobd/daemon/diskuse"
	"github.com/jobd/jobd/store"
)

// newDiskMeter makes what measures the disk for jobctl df. What it says of bounds is that of the settings; docs/operating.md has the
// same as a table.
func newDiskMeter(c *config.Config, s *store.Store, k *containers) *diskuse.Meter {
	o := diskuse.Options{Root: c.Root, Store: s, AuditLog: c.AuditLogPath, Bounds: boundsOf(c)}
	if k.images != nil {
		o.Images = k.images.Usage
	}
	return diskuse.New(o)
}

func boundsOf(c *config.Config) diskuse.Bounds {
	images := "nothing (image-gc-high-threshold)"
	if c.ImageGCHighThreshold < 100 {
		images = fmt.Sprintf("unused ones go once the disk is %d%% full (image-gc-high-threshold)", c.ImageGCHighThreshold)
	}
	if age := c.ImageMaximumGCAge.Duration; age > 0 {
		images += fmt.Sprintf(", or after %s (image-maximum-gc-age)", duration.HumanDuration(age))
	}
	files := "their limits of ephemeral-storage; pods are evicted when the disk is full (eviction-hard)"
	if thresholds, err := c.Eviction(); err != nil || len(thresholds.Disk) == 0 {
		files = "their limits of ephemeral-storage"
	}
	jobs := "forever"
	if ttl := c.TTL(); ttl.Complete > 0 || ttl.Failed > 0 {
		jobs = fmt.Sprintf("%s, failed ones %s", kept(ttl.Complete), kept(ttl.Failed))
	}
	return diskuse.Bounds{
		Images:    images,
		Logs:      fmt.Sprintf("%s, %d files of a container (container-log-max-size, -files)", cmp.Or(c.ContainerLogMaxSize, "0"), c.ContainerLogMaxFiles),
		KeptLogs:  fmt.Sprintf("%s, and %s, or as long as the Job (kept-logs-size, -age)", c.KeptLogsSize, duration.HumanDuration(c.KeptLogsAge.Duration)),
		Pods:      files,
		KeptFiles: "the annotation jobd.dev/keep-files, at most 7 days",
		Claims:    "their size, and until they are deleted",
		History:   fmt.Sprintf("%s, and %s (history-size, -age)", c.HistorySize, duration.HumanDuration(c.HistoryAge.Duration)),
		Events:    fmt.Sprintf("%s, and 25 about an object at once (event-ttl)", duration.HumanDuration(c.EventTTL.Duration)),
		Notices:   "1000 that wait for a receiver, 3 days; 1000 names of a namespace, 30 days",
		AuditLog:  auditLog(c),
		Database:  fmt.Sprintf("Jobs without a TTL are kept %s (job-ttl, failed-job-ttl)", jobs),
	}
}

func auditLog(c *config.Config) string {
	if c.AuditLogMaxSize == 0 {
		return "nothing (audit-log-maxsize)"
	}
	files, age := "any number of", "kept for ever"
	if c.AuditLogMaxBackup > 0 {
		files = strconv.Itoa(c.AuditLogMaxBackup)
	}
	if c.AuditLogMaxAge > 0 {
		age = fmt.Sprintf("%d days", c.AuditLogMaxAge)
	}
	return fmt.Sprintf("%d MB, and %s files of before, %s (audit-log-maxsize, -maxbackup, -maxage)", c.AuditLogMaxSize, files, age)
}

func kept(ttl time.Duration) string {
	if ttl == 0 {
		return "forever"
	}
	return duration.HumanDuration(ttl)
}
