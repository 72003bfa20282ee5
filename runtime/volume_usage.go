package runtime

// VolumeUsage is what a volume uses of its capacity. Where there is no limit of its own, the capacity is that of the file system
// that it is on.
type VolumeUsage struct {
	Used, Capacity, Available           int64 // bytes
	InodesUsed, Inodes, InodesAvailable int64 // zero if the volume is a block device
}
