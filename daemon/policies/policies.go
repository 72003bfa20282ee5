// Package policies lets NetworkPolicies apply to the pods on the bridge.
//
// In come NetworkPolicies, namespaces and pods of the store, and the addresses that pods have. Out goes to the network
// what each pod may receive and send. It writes nothing else.
package policies
