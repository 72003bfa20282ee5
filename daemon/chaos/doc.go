// Package chaos holds nothing but tests: the whole daemon in one process and in virtual time, while all that it stands on fails.
//
// A plan of steps, drawn from a seed, has clients use everything at once. Below, containers start late, twice in a row or not at all,
// answers are lost, containers vanish, and the daemon ends anywhere, as by kill -9: the next one finds the store as it was committed, and
// the containers as they are. What must hold is held against everything that was ever committed, and against what the runtime was really
// asked to do. A plan that breaks a rule is made shorter as long as it still does.
package chaos
