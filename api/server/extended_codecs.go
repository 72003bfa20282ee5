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
		info.Serializer, info.StrictSerializer = countReplicas(info.Serializer, isYAML), countReplicas(info.StrictSerializer, isYAML)
	}
	return guarded{g.codecs, types}
}

// countReplicas makes a serializer refuse JobSets with no replicas of a Job.
func countReplicas(s runtime.Serializer, isYAML bool) runtime.Serializer {
	counting := replicasCounted{s, isYAML}
	if encoder, ok := s.(runtime.EncoderWithAllocator); ok {
		return struct {
			replicasCounted
			allocator
		}{counting, encoder}
	}
	return counting
}

// allocator is what an encoder can do with memory of its caller.
type allocator interface {
	EncodeWithAllocator(obj runtime.Object, w io.Writer, memory runtime.MemoryAllocator) error
}

// replicasCounted refuses what the Go type of a JobSet cannot say: replicas: 0, which is left out of its JSON, and so means 1 to
// whoever reads that. In a cluster such a group has no Jobs.
type replicasCounted struct {
	runtime.Serializer
	isYAML bool
}

func (c replicasCounted) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
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
