package userns

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
)

// Size is how many users and groups a pod has, as with a kubelet.
const Size = 1 << 16

// IDs are the users and groups of the host that are given to pods, in ranges of Size.
type IDs struct{ First, Count uint32 }

func (i IDs) String() string { return fmt.Sprintf("%d:%d", i.First, i.Count) }

// Pods is how many pods there are ranges for.
func (i IDs) Pods() int { return int(i.Count / Size) }

// unused lies between the ids that systemd gives to containers and those that it calls foreign, and above those that
// useradd gives to users: 4094 ranges.
var unused = IDs{First: 0x70000000, Count: 0x0ffe0000}

// user is the user whose entries in /etc/subuid and /etc/subgid are used.
const user = "jobd"

// Files holds the content of the files that say which ids of the host belong to somebody. Nil is an empty file.
type Files struct{ Subuid, Subgid, Passwd, Group []byte }

// ReadFiles reads the files of this host.
func ReadFiles() (Files, error) {
	var f Files
	for path, into := range map[string]*[]byte{
		"/etc/subuid": &f.Subuid, "/etc/subgid": &f.Subgid, "/etc/passwd": &f.Passwd, "/etc/group": &f.Group,
	} {
		content, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			return f, fmt.Errorf("ids of the host: %w", err)
		}
		*into = content
	}
	return f, nil
}

// Choose returns the ids for pods: those of the setting, START:COUNT; or, where that is empty, those that /etc/subuid and
// /etc/subgid give to the user jobd; or else a range that nobody is known to use. Ids that are somebody else's are an
// error.
func Choose(setting string, files Files) (IDs, error) {
	ids, source, err := find(setting, files)
	if err == nil {
		err = ids.check()
	}
	if err == nil {
		err = files.overlap(ids)
	}
	if err != nil {
		return IDs{}, fmt.Errorf("%s: %w", source, err)
	}
	return ids, nil
}

// settingName is the name of the setting and of the flag.
const settingName = "user-namespace-range"

func find(wanted string, files Files) (IDs, string, error) {
	if wanted != "" {
		ids, err := Parse(wanted)
		return ids, settingName, err
	}
	users, groups := entriesOf(files.Subuid), entriesOf(files.Subgid)
	const source = "/etc/subuid and /etc/subgid"
	switch {
	case len(users) == 0 && len(groups) == 0:
		return unused, "the default of " + settingName, nil
	case len(users) != 1 || len(groups) != 1 || users[0] != groups[0]:
		return IDs{}, source, fmt.Errorf("the user %s needs one and the same range in both: %w",
			user, errdefs.ErrInvalidArgument)
	}
	return users[0], source, nil
}

// Parse reads START:COUNT.
func Parse(text string) (IDs, error) {
	first, count, ok := strings.Cut(text, ":")
	a, err1 := strconv.ParseUint(first, 10, 32)
	b, err2 := strconv.ParseUint(count, 10, 32)
	if !ok || err1 != nil || err2 != nil {
		return IDs{}, fmt.Errorf("%q is not of the form START:COUNT: %w", text, errdefs.ErrInvalidArgument)
	}
	ids := IDs{uint32(a), uint32(b)}
	return ids, ids.check()
}

func (i IDs) check() error {
	switch end := uint64(i.First) + uint64(i.Count); {
	case i.First < Size:
		return fmt.Errorf("%s: ids below %d are the host's: %w", i, Size, errdefs.ErrInvalidArgument)
	case i.First%Size != 0 || i.Count%Size != 0 || i.Count == 0:
		return fmt.Errorf("%s: start and count must be multiples of %d: %w", i, Size, errdefs.ErrInvalidArgument)
	case end > math.MaxUint32:
		return fmt.Errorf("%s: ids end at %d: %w", i, uint32(math.MaxUint32)-Size+1, errdefs.ErrInvalidArgument)
	}
	return nil
}

// entriesOf returns the ranges of jobd in a file like /etc/subuid.
func entriesOf(file []byte) (out []IDs) {
	for _, e := range subordinate(file) {
		if e.owner == user {
			out = append(out, e.ids)
		}
	}
	return out
}

type entry struct {
	owner string
	ids   IDs
}

// subordinate returns the entries of a file like /etc/subuid: OWNER:FIRST:COUNT. Lines of any other form are skipped,
// as by others that read it.
func subordinate(file []byte) (out []entry) {
	for line := range strings.Lines(string(file)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) != 3 {
			continue
		}
		first, err1 := strconv.ParseUint(fields[1], 10, 32)
		count, err2 := strconv.ParseUint(fields[2], 10, 32)
		if err1 == nil && err2 == nil {
			out = append(out, entry{fields[0], IDs{uint32(first), uint32(count)}})
		}
	}
	return out
}

// named returns the ids of a file like /etc/passwd, where the third field is one.
func named(file []byte) (out []entry) {
	for line := range strings.Lines(string(file)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) < 3 {
			continue
		}
		if id, err := strconv.ParseUint(fields[2], 10, 32); err == nil {
			out = append(out, entry{fields[0], IDs{uint32(id), 1}})
		}
	}
	return out
}

// overlap fails if any of the ids are somebody else's.
func (f Files) overlap(ids IDs) error {
	for _, of := range []struct {
		file    string
		entries []entry
	}{
		{"/etc/subuid", subordinate(f.Subuid)}, {"/etc/subgid", subordinate(f.Subgid)},
		{"/etc/passwd", named(f.Passwd)}, {"/etc/group", named(f.Group)},
	} {
		for _, e := range of.entries {
			if e.owner != user && ids.overlaps(e.ids) {
				return fmt.Errorf("%s: %s has %s in %s: %w", ids, cmp.Or(e.owner, "somebody"), e.ids, of.file, errdefs.ErrAlreadyExists)
			}
		}
	}
	return nil
}

func (i IDs) overlaps(o IDs) bool {
	return uint64(i.First) < uint64(o.First)+uint64(o.Count) && uint64(o.First) < uint64(i.First)+uint64(i.Count)
}
