// Package cgroup finds the control groups of this host and makes, fills, lists, signals and removes those of jobd: of
// shards, pods and containers. It works on hosts with cgroup v2, with v1, and with both (hybrid). A group is named by
// its path below the root of a hierarchy, such as /jobd/shard-0, and is the same one in every hierarchy.
//
// It is our own code because github.com/opencontainers/cgroups and github.com/containerd/cgroups neither kill what is
// in a group nor handle both versions of a hybrid host at once, and because their managers make the shim, of which a
// host runs several, a third larger (4.6 instead of 3.4 MB) and twice as large.
package cgroup
