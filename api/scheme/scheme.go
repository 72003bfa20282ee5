// Package scheme puts the groups of the API together: their Go types, defaults, conversions, field labels, and how an
// object becomes the bytes that are stored. It is made once from the descriptions of all kinds, and only read
// afterwards.
package scheme

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/jobd/jobd/api/kind"
)

// Set once, when the program starts, and never changed.
var (
	Scheme         = newScheme()
	Codecs         = serializer.NewCodecFactory(Scheme)
	Answers        = WithYAML(Codecs) // what clients are told
	ParameterCodec = runtime.NewParameterCodec(Scheme)
)

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	for _, add := range groups {
		utilruntime.Must(add(s))
	}
	for hub, types := range hubs {
		s.AddKnownTypes(hub, types...)
	}
	utilruntime.Must(addPodLogOptions(s))
	utilruntime.Must(addPodStreamOptions(s))
	utilruntime.Must(addJobLogOptions(s))
	utilruntime.Must(addPictureOptions(s))
	for _, k := range Kinds() {
		utilruntime.Must(register(s, k))
	}
	return s
}

// register adds the types, defaults and field labels of a kind. The types of k8s.io/api serve as the hub version too:
// jobd has one version of each kind, and nothing to gain from a second set of Go types.
func register(s *runtime.Scheme, k *kind.Kind) error {
	hub := schema.GroupVersion{Group: k.GroupVersion.Group, Version: runtime.APIVersionInternal}
	s.AddKnownTypes(hub, k.New(), k.NewList())
	if k.Default != nil {
		s.AddTypeDefaultingFunc(k.New(), func(obj any) { k.Default(obj.(runtime.Object)) })
		s.AddTypeDefaultingFunc(k.NewList(), func(obj any) { defaultItems(obj.(runtime.Object), k.Default) })
	}
	if err := s.AddFieldLabelConversionFunc(k.GroupVersion.WithKind(k.Name), fieldLabels(k, nil)); err != nil {
		return err
	}
	for _, a := range k.AlsoIn {
		s.AddKnownTypes(schema.GroupVersion{Group: a.GroupVersion.Group, Version: runtime.APIVersionInternal}, k.New(),
			k.NewList())
		if err := a.Register(s); err != nil {
			return err
		}
		if err := s.AddFieldLabelConversionFunc(a.GroupVersion.WithKind(k.Name), fieldLabels(k, a.Fields)); err != nil {
			return err
		}
	}
	return nil
}

// fieldLabels accepts the fields that selectors of a kind may name, and translates those with another name.
func fieldLabels(k *kind.Kind, alias map[string]string) runtime.FieldLabelConversionFunc {
	return func(label, value string) (string, string, error) {
		name := label
		if alias[label] != "" {
			name = alias[label]
		}
		if name == "metadata.name" || name == "metadata.namespace" && k.Namespaced || k.Fields[name] != nil {
			return name, value, nil
		}
		return "", "", fmt.Errorf("field label not supported: %s", label)
	}
}
