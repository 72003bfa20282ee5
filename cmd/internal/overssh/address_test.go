package overssh

import (
	"slices"
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	for text, want := range map[string]Address{
		"ssh://lab":                       {Host: "lab", Socket: "/default"},
		"ssh://lab/":                      {Host: "lab", Socket: "/default"},
		"ssh://ann@lab.example.org:2222":  {User: "ann", Host: "lab.example.org", Port: "2222", Socket: "/default"},
		"ssh://ann@lab/run/x/jobd.sock":   {User: "ann", Host: "lab", Socket: "/run/x/jobd.sock"},
		"ssh://DOMAIN+ann@[::1]:22/a/b":   {User: "DOMAIN+ann", Host: "::1", Port: "22", Socket: "/a/b"},
		"ssh://ann@uni.example@lab":       {User: "ann@uni.example", Host: "lab", Socket: "/default"},
		"ssh://[fe80::1%25eth0]":          {Host: "fe80::1%eth0", Socket: "/default"},
		"ssh://machine$@10.0.0.1/tmp/a=b": {User: "machine$", Host: "10.0.0.1", Socket: "/tmp/a=b"},
	} {
		if got, err := Parse(text, "/default"); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"ssh://":                       "names no host",
		"ssh:///run/jobd/jobd.sock":    "names no host",
		"ssh://ann:secret@lab":         "has no password",
		"ssh://-oProxyCommand=x/a":     "no name of a host",
		"ssh://-l@lab":                 "no name of a user",
		"ssh://@lab":                   "no name of a user",
		"ssh://a;b@lab":                "no name of a user",
		"ssh://lab:x":                  "invalid port",
		"ssh://lab/a b":                "should not have",
		"ssh://lab/a'b":                "should not have",
		"ssh://lab/$(x)":               "should not have",
		"ssh://lab/%0a":                "should not have",
		"ssh://lab/a?b":                "ends with the path",
		"ssh://lab/a#b":                "ends with the path",
		"ssh://l%61b%3bx/a":            "invalid URL escape",
		"ssh://lab\x1b[2J/a":           "invalid control character",
		"ssh://lab.example.org:22:22/": "no name of a host",
	} {
		if got, err := Parse(text, "/default"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error has the password: %v", text, err)
		}
	}
}

func TestTheArgumentsOfSSH(t *testing.T) {
	a := Address{User: "ann", Host: "lab", Port: "2222"}
	if got := a.arguments(); !slices.Equal(got, []string{"-l", "ann", "-p", "2222", "--", "lab"}) || a.command() != "ssh -p 2222 ann@lab" {
		t.Errorf("%q, %s", got, a.command())
	}
	a = Address{Host: "lab"}
	if got := a.arguments(); !slices.Equal(got, []string{"--", "lab"}) || a.command() != "ssh lab" {
		t.Errorf("%q, %s", got, a.command())
	}
}

func FuzzWhatShellsSeeIsPlain(f *testing.F) {
	for _, text := range []string{"ssh://lab", "ssh://a@b:1/c", "ssh://-x/`y`", "ssh://a'@b/$c", "ssh://[::1%25x]/a"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := Parse(text, "/default")
		if err != nil {
			return
		}
		if all := a.Host + a.Socket; strings.ContainsAny(all, " \t\n\r'\"`$&|;<>(){}[]*?!#~\\^") || strings.HasPrefix(a.Host, "-") ||
			strings.HasPrefix(a.User, "-") || strings.ContainsAny(a.User, " \t\n\r'\"`&|;<>(){}[]*?!#~\\^/") {
			t.Errorf("%q is taken: %+v", text, a)
		}
	})
}
