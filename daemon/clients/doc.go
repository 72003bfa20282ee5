// Package clients has the tests that use jobd as the clients of clusters do: informers, leader elections, test
// frameworks, and many clients that send nonsense at once. The daemon is a process of its own, with simulated
// containers, so that it can be killed and measured; its API and its database are the real ones.
package clients
