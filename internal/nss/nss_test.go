package nss

import (
	"errors"
	"os"
	"reflect"
	"testing"
)

func TestLookup(t *testing.T) {
	u, err := Lookup(t.Context(), 0)
	if err != nil || u.Name != "root" || len(u.Groups) == 0 || u.Groups[0] != (Group{0, "root"}) {
		t.Errorf("root is %+v, %v", u, err)
	}
	files, err := fromFiles(0)
	if err != nil || files.Name != u.Name || files.Home != u.Home || files.Groups[0] != u.Groups[0] {
		t.Errorf("by the files root is %+v, %v", files, err)
	}
	const nobodys = 3999999999
	for name, lookup := range map[string]func() (User, error){
		"getent": func() (User, error) { return Lookup(t.Context(), nobodys) },
		"files":  func() (User, error) { return fromFiles(nobodys) },
	} {
		if u, err := lookup(); !errors.Is(err, UnknownError{nobodys}) {
			t.Errorf("%s: a user that there is not is %+v, %v", name, u, err)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if u, err := Lookup(t.Context(), uint32(os.Getuid())); err != nil || u.Name == "" {
		t.Errorf("without getent: %+v, %v", u, err)
	}
}

func TestParse(t *testing.T) {
	for line, want := range map[string]User{
		"alice:x:1000:1000:Alice,,,:/home/alice:/bin/sh\n":      {Name: "alice", UID: 1000, Home: "/home/alice"},
		"bob:x:1001:1001::/home/bob:\nal:x:1000:4::/home/al:\n": {Name: "al", UID: 1000, Home: "/home/al"},
	} {
		if u, _, err := parseUser([]byte(line), 1000); err != nil || !reflect.DeepEqual(u, want) {
			t.Errorf("%q: %+v, %v", line, u, err)
		}
	}
	for _, line := range []string{
		"", "\n", ":x:1000:1000::/:\n", "alice:x:01000:1000::/:\n", "alice:x:1000:-1::/:\n", "alice:x:1000:4294967295::/:\n", "alice:x:1000\n",
	} {
		if u, _, err := parseUser([]byte(line), 1000); err == nil {
			t.Errorf("%q is %+v", line, u)
		}
	}
	for line, want := range map[string][]uint32{
		"alice                 4 24 1000\n": {1000, 4, 24}, "alice\n": {1000}, "": {1000}, "alice 4 4 4": {1000, 4},
	} {
		if gids, err := parseInitgroups([]byte(line), "alice", 1000); err != nil || !reflect.DeepEqual(gids, want) {
			t.Errorf("%q: %v, %v", line, gids, err)
		}
	}
	for _, line := range []string{"alice 4 x", "alice2 4", "bob 4", "alice -1"} {
		if gids, err := parseInitgroups([]byte(line), "alice", 1000); err == nil {
			t.Errorf("%q: groups without a number, or of others, are %v", line, gids)
		}
	}
	names := parseGroups([]byte("adm:x:4:syslog\ndomain users:*:20000:\nother:x:4:\nbroken\n"))
	if !reflect.DeepEqual(names, map[uint32]string{4: "adm", 20000: "domain users"}) {
		t.Errorf("the groups are %v", names)
	}
}

// A number in the name of a user is not one of the user's groups.
func TestNamesWithSpaces(t *testing.T) {
	for name, line := range map[string]string{
		"guest 27": "guest 27              1000 4\n", "guest 0": "guest 0 4\n", "Ann Lee": "Ann Lee               1000 4\n",
		"somebody whose name is long 0": "somebody whose name is long 0 1000 4\n",
	} {
		if gids, err := parseInitgroups([]byte(line), name, 1000); err != nil || !reflect.DeepEqual(gids, []uint32{1000, 4}) {
			t.Errorf("%q is in the groups %v, %v", name, gids, err)
		}
	}
}
