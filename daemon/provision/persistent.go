package provision

import (
	"context"

	"github.com/jobd/jobd/runtime/persistent"
)

// OnDisk returns the volumes below jobd's root.
func OnDisk(v *persistent.Volumes) Volumes { return onDisk{v} }

type onDisk struct{ volumes *persistent.Volumes }

func (d onDisk) Provision(ctx context.Context, v Volume) (Provisioned, error) {
	spec := persistent.Spec{
		Name: v.Name, Type: persistent.Directory, Mode: persistent.Filesystem, Size: v.Size, FSType: v.FSType,
	}
	if v.Loop {
		spec.Type = persistent.Loop
	}
	if v.Block {
		spec.Mode = persistent.Block
	}
	made, err := d.volumes.Provision(ctx, spec)
	return Provisioned{Path: made.Path, Enforced: made.Enforced, Warning: made.Warning}, err
}

func (d onDisk) Expand(ctx context.Context, name string, size int64) error {
	return d.volumes.Expand(ctx, name, size)
}

func (d onDisk) Delete(ctx context.Context, name string) error { return d.volumes.Delete(ctx, name) }
