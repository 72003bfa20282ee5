package server

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/absent"
	"github.com/jobd/jobd/api/kueue"
)

// codecsOf returns the codecs of a group: one that extends a cluster speaks no protobuf.
func (g *groups) codecsOf(gv schema.GroupVersion) runtime.NegotiatedSerializer {
	extends := gv.Group == jobsetv1.GroupVersion.Group || gv.Group == kueue.GroupVersion.Group || absent.IsIntegration(gv.Group)
	if !extends {
		return g.codecs
	}
	types := slices.DeleteFunc(slices.Clone(g.codecs.SupportedMediaTypes()), func(info runtime.SerializerInfo) bool {
		return info.MediaType == runtime.ContentTypeProtobuf
	})
	for i := range types {
		info := &types[i]
		isYAML := info.MediaType == runtime.ContentTypeYAML
		info.Serializer, info.StrictSerializer = extend(info.Serializer, isYAML), extend(info.StrictSerializer, isYAML)
	}
	return guarded{g.codecs, types}
}

// extend makes a serializer one for JobSets.
func extend(s runtime.Serializer, isYAML bool) runtime.Serializer {
	out := extended{s, isYAML}
	if encoder, ok := s.(runtime.EncoderWithAllocator); ok {
		return extendedWithAllocator{out, encoder}
	}
	return out
}

// extended reads and writes JobSets.
type extended struct {
	runtime.Serializer
	isYAML bool
}

// extendedWithAllocator can write into memory of its caller.
type extendedWithAllocator struct {
	extended
	encoder runtime.EncoderWithAllocator
}

// EncodeWithAllocator implements runtime.EncoderWithAllocator.
func (c extendedWithAllocator) EncodeWithAllocator(obj runtime.Object, w io.Writer, memory runtime.MemoryAllocator) error {
	return c.encoder.EncodeWithAllocator(withKinds(obj), w, memory)
}

// Encode implements runtime.Encoder.
func (c extended) Encode(obj runtime.Object, w io.Writer) error {
	return c.Serializer.Encode(withKinds(obj), w)
}

// withKinds returns a list of JobSets in which each says what it is, as in a cluster those of all kinds do that extend it: clients
// print them one by one. Those of the kinds that every cluster has do not.
func withKinds(obj runtime.Object) runtime.Object {
	list, ok := obj.(*jobsetv1.JobSetList)
	if !ok {
		return obj
	}
	out := *list
	out.Items = slices.Clone(list.Items) // which others may read
	for i := range out.Items {
		out.Items[i].SetGroupVersionKind(jobsetv1.GroupVersion.WithKind("JobSet"))
	}
	return &out
}

// Decode implements runtime.Decoder. It refuses what the Go type of a JobSet cannot say: replicas: 0, which is left out of its JSON,
// and so means 1 to whoever reads that. In a cluster such a group has no Jobs.
func (c extended) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, kind, err := c.Serializer.Decode(data, defaults, into)
	js, ok := obj.(*jobsetv1.JobSet)
	if err != nil || !ok || !slices.ContainsFunc(js.Spec.ReplicatedJobs, func(g jobsetv1.ReplicatedJob) bool { return g.Replicas == 0 }) {
		return obj, kind, err
	}
	if c.isYAML && !json.Valid(data) {
		if data, err = yaml.YAMLToJSON(data); err != nil {
			return obj, kind, err
		}
	}
	var said struct {
		Spec struct {
			ReplicatedJobs []struct{ Replicas *int32 }
		}
	}
	if json.Unmarshal(data, &said) != nil {
		return obj, kind, nil // it has been decoded
	}
	for i, group := range said.Spec.ReplicatedJobs {
		if group.Replicas != nil && *group.Replicas == 0 {
			return nil, kind, apierrors.NewBadRequest(fmt.Sprintf(
				"spec.replicatedJobs[%d].replicas: 0 is not supported: leave the replicatedJob out, or suspend the JobSet", i))
		}
	}
	return obj, kind, nil
}
