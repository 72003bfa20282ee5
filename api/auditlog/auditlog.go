// Package auditlog writes who asked the API for what into a file, as a policy says: the audit log of an apiserver, with
// its policy files, formats and modes. What comes in are the paths and settings of Options; what goes out is a Log, for
// the filters of package server. Nothing is touched but the log file and its older generations beside it.
package auditlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/natefinch/lumberjack.v2"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	internal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/plugin/pkg/audit/buffered"
	pluginlog "k8s.io/apiserver/plugin/pkg/audit/log"
)

// The modes of writing.
const (
	// ModeBatch writes beside the requests. What comes too fast for the disk is lost, and counted in
	// apiserver_audit_error_total.
	ModeBatch = "batch"
	// ModeBlocking has requests wait until their event is written.
	ModeBlocking = "blocking"
	// ModeBlockingStrict does that too, and refuses requests whose beginning cannot be written.
	ModeBlockingStrict = "blocking-strict"
)

// maxBuffered bounds the events that wait to be written in ModeBatch.
const maxBuffered = 10_000

// Options are the settings of a kube-apiserver that are called --audit-*.
type Options struct {
	// PolicyFile is of the kind Policy of audit.k8s.io/v1.
	PolicyFile string
	// Path is the log file, which is made for the owner alone; "-" is the standard output.
	Path string
	// MaxAge is for how many days older generations of the file are kept, MaxBackups how many of them, and MaxSize from
	// how many megabytes on a new one is begun. 0 is no limit.
	MaxAge, MaxBackups, MaxSize int
	// Format is "json" or "legacy": an event is a line in any case.
	Format string
	// Mode is one of the modes.
	Mode string
}

// Check reports settings that mean nothing, and what is wrong with the policy, by the names of the flags.
func (o *Options) Check() error {
	switch {
	case (o.PolicyFile == "") != (o.Path == ""):
		return errors.New("audit-policy-file and audit-log-path need each other: the policy says what is logged, the path where")
	case !slices.Contains(pluginlog.AllowedFormats, o.Format):
		return fmt.Errorf("audit-log-format: %q is not known: %s", o.Format, strings.Join(pluginlog.AllowedFormats, " or "))
	case !slices.Contains([]string{ModeBatch, ModeBlocking, ModeBlockingStrict}, o.Mode):
		return fmt.Errorf("audit-log-mode: %q is not known: %s, %s or %s", o.Mode, ModeBatch, ModeBlocking, ModeBlockingStrict)
	case o.MaxAge < 0 || o.MaxBackups < 0 || o.MaxSize < 0:
		return errors.New("audit-log-maxage, audit-log-maxbackup and audit-log-maxsize must not be below 0")
	case o.PolicyFile == "":
		return nil
	}
	_, err := readPolicy(o.PolicyFile)
	return err
}

// Log is an audit log. It is made by Open, which also starts its Backend.
type Log struct {
	// Policy says which events are written, and how much of them.
	Policy audit.PolicyRuleEvaluator
	// Backend writes them.
	Backend audit.Backend

	stop chan struct{}
	file io.Closer
}

// Open reads the policy and begins to append to the log.
func Open(o Options) (*Log, error) {
	rules, err := readPolicy(o.PolicyFile)
	if err != nil {
		return nil, err
	}
	file, err := openFile(o)
	if err != nil {
		return nil, fmt.Errorf("audit-log-path: %w", err)
	}
	l := &Log{Policy: policy.NewPolicyRuleEvaluator(rules), stop: make(chan struct{}), file: file}
	l.Backend = pluginlog.NewBackend(file, o.Format, auditv1.SchemeGroupVersion)
	switch o.Mode {
	case ModeBatch:
		l.Backend = buffered.NewBackend(l.Backend, buffered.BatchConfig{BufferSize: maxBuffered, MaxBatchSize: 1})
	case ModeBlocking:
		l.Backend = lenient{l.Backend}
	}
	if err := l.Backend.Run(l.stop); err != nil {
		return nil, errors.Join(fmt.Errorf("audit log: %w", err), file.Close())
	}
	return l, nil
}

// Close writes what waits to be written. It is called once, when no request is served any more.
func (l *Log) Close() error {
	close(l.stop)
	l.Backend.Shutdown()
	return l.file.Close()
}

// lenient lets requests pass whose events cannot be written.
type lenient struct{ audit.Backend }

func (l lenient) ProcessEvents(events ...*internal.Event) bool {
	l.Backend.ProcessEvents(events...)
	return true
}

// readPolicy refuses fields that are not known, which an apiserver would only warn of: a rule with a misspelled field
// covers other requests than it seems to.
func readPolicy(path string) (*internal.Policy, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("audit-policy-file: %w", err)
	}
	strict := serializer.NewCodecFactory(audit.Scheme, serializer.EnableStrict).UniversalDecoder()
	if _, _, err := strict.Decode(content, nil, &internal.Policy{}); err != nil {
		return nil, fmt.Errorf("audit-policy-file: %s: %w", path, err)
	}
	rules, err := policy.LoadPolicyFromBytes(content)
	if err != nil {
		return nil, fmt.Errorf("audit-policy-file: %s: %w", path, err)
	}
	return rules, nil
}

// openFile opens the log so that it is clear at once when it cannot be written.
func openFile(o Options) (io.WriteCloser, error) {
	if o.Path == "-" {
		return stdout{os.Stdout}, nil
	}
	if err := os.MkdirAll(filepath.Dir(o.Path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(o.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if o.MaxSize == 0 {
		return f, nil
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	return &lumberjack.Logger{Filename: o.Path, MaxAge: o.MaxAge, MaxBackups: o.MaxBackups, MaxSize: o.MaxSize}, nil
}

// stdout stays open.
type stdout struct{ io.Writer }

func (stdout) Close() error { return nil }
