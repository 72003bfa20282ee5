package main

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"
)

// TestWhyCredentialsAreRefused: what is sent says which of the things that can be wrong it is.
func TestWhyCredentialsAreRefused(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	token := func(claims string) string {
		return "Bearer e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	for name, tc := range map[string]struct{ sent, says string }{
		"nothing":       {"", "No token was sent"},
		"a password":    {"Basic YTpi", "No token was sent"},
		"nonsense":      {"Bearer nonsense", "is not one of a ServiceAccount"},
		"three parts":   {"Bearer a.b.c", "is not one of a ServiceAccount"},
		"of a provider": {token(`{"sub":"me","exp":1900000000}`), "is not one of a ServiceAccount"},
		"an expired one": {
			token(`{"exp":1799999999,"kubernetes.io":{"namespace":"ci","serviceaccount":{"name":"bob"}}}`),
			"of the ServiceAccount bob has expired, at 2027-01-15T07:59:59Z: make another one on the machine of jobd, with: jobctl create token bob -n ci",
		},
		"one that ends now": {token(`{"exp":1800000000,"kubernetes.io":{"namespace":"ci","serviceaccount":{"name":"bob"}}}`), "has expired"},
		"another server's": {
			token(`{"exp":1800000001,"kubernetes.io":{"namespace":"default","serviceaccount":{"name":"bob"}}}`),
			"is another server's, or what it belongs to was deleted",
		},
	} {
		if said := whyUnauthorized(tc.sent, now); !strings.Contains(said, tc.says) {
			t.Errorf("%s: %q, want %q", name, said, tc.says)
		}
	}
}

// TestReplacedTemplate: of a Job that is replaced from a file without its selector, only what the user has changed is said.
func TestReplacedTemplate(t *testing.T) {
	said := shortTemplate("The Job \"pi\" is invalid: \n* spec.selector: Required value\n* spec.template.metadata.labels: Invalid value: null: " +
		"`selector` does not match template `labels`\n* spec.selector: Invalid value: null: field is immutable\n" +
		"* spec.template: Invalid value: {\"spec\":{}}: field is immutable\n")
	if want := "The Job \"pi\" is invalid: \n* spec.template: the template of a Job cannot change, since its pods are made from it: " + anew + "\n"; said != want {
		t.Errorf("%q, want %q", said, want)
	}
}

// TestCommandsOfTheDaemon: those that are not jobctl's are named, and a Job that is gone is told of as the history has it.
func TestCommandsOfTheDaemon(t *testing.T) {
	if said := newWords(nil).translate(`error: unknown command "doctor" for "jobctl"`); !strings.HasSuffix(said, "sudo jobd doctor") {
		t.Errorf("%q", said)
	}
}

// A user of the machine is told who may do what they may not; others are not.
func TestWhoMay(t *testing.T) {
	const jobs = `Error from server (Forbidden): jobs.batch is forbidden: User "unix:bob" cannot list resource "jobs" in API group "batch" in the namespace "default"`
	for _, c := range []struct {
		message  string
		stranger bool
		want     string
	}{
		{jobs, true, "sudo usermod -aG jobd bob"},
		{jobs, false, "The namespace of bob is bob, in which"}, // of a namespace that is not theirs
		{`jobs.batch is forbidden: User "unix:bob" cannot list resource "jobs" in API group "batch" at the cluster scope`, false, "is bob, in which"},
		{`resourcequotas is forbidden: User "unix:bob" cannot create resource "resourcequotas" in API group "" in the namespace "bob"`, false, ""},
		{`error: forbidden: User "unix:bob" cannot get path "/jobd/v1/images"`, false, "administrators"},
		{`error: forbidden: User "unix:bob" cannot get path "/jobd/v1/images"`, true, "sudo usermod -aG jobd bob"},
		{`jobs.batch is forbidden: User "system:serviceaccount:a:b" cannot list resource "jobs"`, true, ""},
		{`jobs.batch "x" not found`, true, ""},
	} {
		if got := whoMay(c.message, c.stranger, "bob"); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.message, got, c.want)
		}
	}
}
