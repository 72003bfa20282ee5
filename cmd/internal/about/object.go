// Package about asks a server about one object that somebody has named on the command line: why it is in its state, for its picture, and for the
// end of a pod's log. `jobctl why`, `report` and `watch` share it, and decide what is shown of the answers.
package about

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// Object names an object as people do on the command line.
type Object struct{ Resource, Namespace, Name string }

// OneJob returns the Job that the arguments name. Why says why it can be one only.
func OneJob(f cmdutil.Factory, args []string, why string) (Object, error) {
	objects, err := Named(f, []string{"jobs"}, args)
	switch {
	case err != nil:
		return Object{}, err
	case len(objects) != 1:
		return Object{}, errors.New("name one Job: " + why)
	}
	return objects[0], nil
}

// Named returns the objects that the arguments name, as in "jobs/pi", "job pi" or "pi", which is a Job. Their kinds must
// be among the given ones.
func Named(f cmdutil.Factory, kinds, args []string) ([]Object, error) {
	namespace, _, err := f.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	all := false
	for _, arg := range args {
		all = all || strings.Contains(arg, "/")
	}
	switch {
	case len(args) == 0:
		return nil, fmt.Errorf("no object was named: give %s", strings.Join(alternativesOf(kinds), ", "))
	case len(args) == 1 && !all:
		args = []string{kinds[0] + "/" + args[0]}
	case !all:
		var slashed []string
		for _, name := range args[1:] {
			slashed = append(slashed, args[0]+"/"+name)
		}
		args = slashed
	}
	mapper, err := f.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	var objects []Object
	for _, arg := range args {
		kind, name, ok := strings.Cut(arg, "/")
		if !ok || name == "" || strings.Contains(name, "/") {
			return nil, fmt.Errorf("%q does not name an object: %s", arg, strings.Join(alternativesOf(kinds), ", "))
		}
		gvr, err := mapper.ResourceFor(schema.ParseGroupResource(strings.ToLower(kind)).WithVersion(""))
		if err != nil {
			return nil, err
		}
		known := false
		for _, k := range kinds {
			known = known || gvr.Resource == k
		}
		if !known {
			return nil, fmt.Errorf("%s are not %s", gvr.Resource, strings.Join(kinds, " or "))
		}
		objects = append(objects, Object{Resource: gvr.Resource, Namespace: namespace, Name: name})
	}
	return objects, nil
}

func alternativesOf(kinds []string) (all []string) {
	for _, kind := range kinds {
		all = append(all, kind+"/NAME")
	}
	return all
}
