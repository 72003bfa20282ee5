// Package nss asks this machine who its users are, as its name service switch has them: in files, or in a directory such as LDAP. The
// program getent of the C library does so, since this one has none; without it, the files are read.
package nss

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"
)

// User is a user of this machine.
type User struct {
	Name   string
	UID    uint32
	Home   string
	Groups []Group // the first is the user's own
}

// Group is a group of this machine. One that is gone has a number and no name.
type Group struct {
	GID  uint32
	Name string
}

// UnknownError reports that a user has no name on this machine.
type UnknownError struct{ UID uint32 }

func (e UnknownError) Error() string { return fmt.Sprintf("this machine knows no user %d", e.UID) }

// patience is how long a directory may take to answer.
const patience = 10 * time.Second

// Lookup finds a user by the number, with all of the user's groups.
func Lookup(ctx context.Context, uid uint32) (User, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	line, err := getent(ctx, "passwd", strconv.FormatUint(uint64(uid), 10))
	if errors.Is(err, exec.ErrNotFound) {
		return fromFiles(uid)
	}
	if err != nil {
		return User{}, err
	}
	u, own, err := parseUser(line, uid)
	if err != nil {
		return User{}, err
	}
	in, err := getent(ctx, "initgroups", u.Name)
	if err != nil {
		return User{}, err
	}
	gids, err := parseInitgroups(in, u.Name, own)
	if err != nil {
		return User{}, fmt.Errorf("the groups of %s: %w", u.Name, err)
	}
	keys := []string{"group"}
	for _, gid := range gids {
		keys = append(keys, strconv.FormatUint(uint64(gid), 10))
	}
	groups, err := getent(ctx, keys...)
	if err != nil {
		return User{}, err
	}
	names := parseGroups(groups)
	for _, gid := range gids {
		u.Groups = append(u.Groups, Group{gid, names[gid]})
	}
	return u, nil
}

// notFound is how getent exits if one of the keys is not known.
const notFound = 2

func getent(ctx context.Context, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, "getent", append([]string{"--"}, args...)...)
	out, err := c.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == notFound {
		err = nil // what is known is written
	}
	if err != nil {
		return nil, fmt.Errorf("ask this machine for its users: getent %s: %w", args[0], err)
	}
	return out, nil
}

// parseUser reads the first line of passwd(5) that is of a user.
func parseUser(passwd []byte, uid uint32) (u User, own uint32, err error) {
	for line := range bytes.Lines(passwd) {
		f := strings.Split(strings.TrimRight(string(line), "\n"), ":")
		if len(f) < 6 || f[0] == "" || f[2] != strconv.FormatUint(uint64(uid), 10) {
			continue
		}
		if own, err = number(f[3]); err != nil {
			return User{}, 0, err
		}
		return User{Name: f[0], UID: uid, Home: f[5]}, own, nil
	}
	return User{}, 0, UnknownError{uid}
}

// parseInitgroups reads what initgroups says of a user: the name, and numbers. A directory may have names with spaces in them, so that
// only who knows the name can tell where it ends: the user "guest 27" is not in group 27.
func parseInitgroups(initgroups []byte, name string, own uint32) ([]uint32, error) {
	line, _, _ := strings.Cut(string(initgroups), "\n")
	if line == "" {
		return []uint32{own}, nil
	}
	numbers, ok := strings.CutPrefix(line, name)
	if !ok || numbers != "" && numbers[0] != ' ' {
		return nil, fmt.Errorf("%q is about somebody else", line)
	}
	return parseNumbers(strings.Fields(numbers), own)
}

// parseNumbers reads the numbers of a user's groups. The user's own group comes first.
func parseNumbers(groups []string, own uint32) ([]uint32, error) {
	gids := []uint32{own}
	for _, f := range groups {
		gid, err := number(f)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(gids, gid) {
			gids = append(gids, gid)
		}
	}
	return gids, nil
}

func parseGroups(group []byte) map[uint32]string {
	names := map[uint32]string{}
	for line := range bytes.Lines(group) {
		f := strings.Split(strings.TrimRight(string(line), "\n"), ":")
		if len(f) < 3 {
			continue
		}
		if gid, err := number(f[2]); err == nil && names[gid] == "" {
			names[gid] = f[0]
		}
	}
	return names
}

// number reads the number of a user or a group; the largest one is the kernel's for none.
func number(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == math.MaxUint32 {
		return 0, fmt.Errorf("%q is not the number of a user or group", text)
	}
	return uint32(n), nil
}

// fromFiles looks into /etc/passwd and /etc/group.
func fromFiles(uid uint32) (User, error) {
	found, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	var unknown user.UnknownUserIdError
	if errors.As(err, &unknown) {
		return User{}, UnknownError{uid}
	} else if err != nil {
		return User{}, err
	}
	own, err := number(found.Gid)
	if err != nil {
		return User{}, err
	}
	others, err := found.GroupIds()
	if err != nil {
		return User{}, err
	}
	u := User{Name: found.Username, UID: uid, Home: found.HomeDir}
	gids, err := parseNumbers(others, own)
	if err != nil {
		return User{}, err
	}
	for _, gid := range gids {
		g := Group{GID: gid}
		if named, err := user.LookupGroupId(strconv.FormatUint(uint64(gid), 10)); err == nil {
			g.Name = named.Name
		}
		u.Groups = append(u.Groups, g)
	}
	return u, nil
}
