// Package cgroup finds the control groups of this host and makes, fills, lists, signals and removes those of jobd: of
// shards, pods and containers. It works on hosts with cgroup v2, with v1, and with both (hybrid). A group is named by
// its path below the root of a hierarchy, such as /jobd/shard-0, and is the same one in every hierarchy.
//
// It is our own code for two reasons. Neither github.com/opencontainers/cgroups nor github.com/containerd/cgroups kills the
// processes of a group, or handles both versions of a hybrid host at once. And their managers would add a third to the size
// of the shim, several of which run on a host: 4.6 instead of 3.4 MB with the first, and twice as much with the second.
package cgroup
