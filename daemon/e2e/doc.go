// Package e2e has the tests that run jobd as its users do: the built programs, real containers, a real kubectl, kill -9.
// They need root and an OCI runtime and are skipped, by name, without.
package e2e
