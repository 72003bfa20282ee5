package userns

import (
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	for _, tc := range []struct {
		name, setting string
		files         Files
		want          IDs
		failure       string
	}{
		{name: "nobody says", want: IDs{1879048192, 268304384}},
		{name: "other users' ranges are theirs", files: Files{Subuid: []byte("me:100000:65536\n"), Subgid: []byte("me:100000:65536\n")},
			want: IDs{1879048192, 268304384}},
		{name: "the setting", setting: "131072:196608", want: IDs{131072, 196608}},
		{name: "the user's entry", files: Files{Subuid: []byte("a:65536:65536\njobd:131072:131072\n"), Subgid: []byte("jobd:131072:131072")},
			want: IDs{131072, 131072}},
		{name: "the setting comes before the entry", setting: "65536:65536",
			files: Files{Subuid: []byte("jobd:65536:131072"), Subgid: []byte("jobd:65536:131072")}, want: IDs{65536, 65536}},
		{name: "the last ids", setting: "4294836224:65536", want: IDs{4294836224, 65536}},

		{name: "an entry for users alone", files: Files{Subuid: []byte("jobd:131072:131072")}, failure: "one and the same range in both"},
		{name: "entries that differ", files: Files{Subuid: []byte("jobd:131072:65536"), Subgid: []byte("jobd:196608:65536")},
			failure: "one and the same range in both"},
		{name: "two entries", files: Files{Subuid: []byte("jobd:131072:65536\njobd:262144:65536"), Subgid: []byte("jobd:131072:65536")},
			failure: "one and the same range in both"},
		{name: "ids of the host", setting: "0:131072", failure: "ids below 65536 are the host's"},
		{name: "ids of the host in an entry", files: Files{Subuid: []byte("jobd:1000:65536"), Subgid: []byte("jobd:1000:65536")},
			failure: "ids below 65536 are the host's"},
		{name: "a crooked start", setting: "100000:65536", failure: "multiples of 65536"},
		{name: "a crooked count", setting: "131072:65535", failure: "multiples of 65536"},
		{name: "none", setting: "131072:0", failure: "multiples of 65536"},
		{name: "no such ids", setting: "4294901760:65536", failure: "ids end at"},
		{name: "beyond all ids", setting: "131072:4294901760", failure: "ids end at"},
		{name: "no range", setting: "131072", failure: "START:COUNT"},
		{name: "no numbers", setting: "a:b", failure: "START:COUNT"},
		{name: "somebody's subordinate users", setting: "131072:131072", files: Files{Subuid: []byte("me:200000:65536")},
			failure: "me has 200000:65536 in /etc/subuid"},
		{name: "somebody's subordinate groups", setting: "131072:131072", files: Files{Subgid: []byte("me:65537:65536")},
			failure: "me has 65537:65536 in /etc/subgid"},
		{name: "a user", setting: "131072:65536", files: Files{Passwd: []byte("root:x:0:0::/:/bin/sh\nldap:x:131073:100::/:\n")},
			failure: "ldap has 131073:1 in /etc/passwd"},
		{name: "a group", setting: "131072:65536", files: Files{Group: []byte("staff:x:196607:\n")}, failure: "staff has 196607:1 in /etc/group"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Choose(tc.setting, tc.files)
			if tc.failure != "" {
				if err == nil || !strings.Contains(err.Error(), tc.failure) {
					t.Errorf("%v, %v; want an error with %q", got, err, tc.failure)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("%v, %v; want %v", got, err, tc.want)
			}
		})
	}
}

// Whatever the setting and the files say, no pod gets ids of the host or somebody else's, or half a range.
func FuzzChoose(f *testing.F) {
	f.Add("131072:65536", "jobd:131072:65536\nme:65536:1", "jobd:131072:65536", "x:x:65536:")
	f.Add("", "jobd:65536:65536", "jobd:65536:65536", "")
	f.Fuzz(func(t *testing.T, setting, subuid, subgid, passwd string) {
		files := Files{Subuid: []byte(subuid), Subgid: []byte(subgid), Passwd: []byte(passwd)}
		ids, err := Choose(setting, files)
		if err != nil {
			return
		}
		if ids.First < Size || ids.First%Size != 0 || ids.Count%Size != 0 || ids.Pods() < 1 || ids.First+ids.Count < ids.First {
			t.Errorf("chose %v", ids)
		}
		for _, e := range append(subordinate(files.Subuid), named(files.Passwd)...) {
			last := ids.First + ids.Count - 1
			if e.owner != user && e.ids.Count > 0 && e.ids.First >= ids.First && e.ids.First <= last {
				t.Errorf("%v has %v of %s", ids, e.ids, e.owner)
			}
		}
	})
}
