package oci

import (
	"reflect"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// own gives a pod users of its own (PodSpec.HostUsers).
func own(in *Input) {
	in.Pod.Spec.HostUsers = ptr(false)
	in.Users = &specs.LinuxIDMapping{HostID: 131072, Size: 65536}
	in.Namespaces = map[specs.LinuxNamespaceType]string{specs.UserNamespace: "/ns/user", specs.NetworkNamespace: "/ns/net"}
	in.Mounts = []specs.Mount{{Destination: "/v", Type: "bind", Source: "/volume", Options: []string{"rbind"}}}
	in.Declared = []specs.Mount{{Destination: "/declared", Type: "bind", Source: "/dir", Options: []string{"rbind"}}}
	in.Files = Files{Hosts: "/hosts"}
}

func TestUsersOfItsOwn(t *testing.T) {
	spec := specOf(t, own)
	mapping := []specs.LinuxIDMapping{{ContainerID: 0, HostID: 131072, Size: 65536}}
	if l := spec.Linux; !reflect.DeepEqual(l.UIDMappings, mapping) || !reflect.DeepEqual(l.GIDMappings, mapping) {
		t.Errorf("users %v, groups %v", l.UIDMappings, l.GIDMappings)
	}
	paths := map[specs.LinuxNamespaceType]string{}
	for _, n := range spec.Linux.Namespaces {
		paths[n.Type] = n.Path
	}
	if paths[specs.UserNamespace] != "/ns/user" || paths[specs.NetworkNamespace] != "/ns/net" {
		t.Errorf("namespaces %v", paths)
	}
	for _, m := range spec.Mounts {
		ofThePod := m.Destination == "/v" || m.Destination == "/declared" || m.Destination == "/etc/hosts"
		if mapped := reflect.DeepEqual(m.UIDMappings, mapping) && reflect.DeepEqual(m.GIDMappings, mapping); mapped != ofThePod {
			t.Errorf("%s has the ids %v and %v", m.Destination, m.UIDMappings, m.GIDMappings)
		}
	}
}

func TestUsersThatDoNotExist(t *testing.T) {
	for name, tc := range map[string]struct {
		user    specs.User
		failure string
	}{
		"root":                   {specs.User{Username: "0"}, ""},
		"the last":               {specs.User{Username: "65535:65535", AdditionalGids: []uint32{65535}}, ""},
		"a user beyond":          {specs.User{Username: "65536"}, "user 65536 is beyond the 65536"},
		"a group beyond":         {specs.User{Username: "1:70000"}, "group 70000 is beyond"},
		"a further group beyond": {specs.User{Username: "1:1", AdditionalGids: []uint32{70000}}, "group 70000 is beyond"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, mapped := range []bool{true, false} {
				spec := specOf(t, nil)
				if mapped {
					spec = specOf(t, own)
				}
				spec.Process.User = tc.user
				err := ResolveUser(spec, nil, nil)
				if refused := mapped && tc.failure != ""; refused != (err != nil) || refused && !strings.Contains(err.Error(), tc.failure) {
					t.Errorf("with users of its own %v: %v", mapped, err)
				}
			}
		})
	}
}

func TestUsersOfItsOwnRefuse(t *testing.T) {
	for name, change := range map[string]func(in *Input){
		"there are none":               func(in *Input) { in.Users = nil },
		"the pod has the host's":       func(in *Input) { in.Pod.Spec.HostUsers = ptr(true) },
		"there is no namespace":        func(in *Input) { delete(in.Namespaces, specs.UserNamespace) },
		"a mount spreads to the host":  func(in *Input) { in.Mounts[0].Options = []string{"rbind", "rshared"} },
		"users without their mappings": func(in *Input) { in.Users, in.Pod.Spec.HostUsers = nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Spec(input(func(in *Input) { own(in); change(in) })); err == nil {
				t.Error("no error")
			}
		})
	}
}
