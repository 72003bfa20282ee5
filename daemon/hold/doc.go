// Package hold decides what holds back a Job before it starts: a file for each reason.
//
// Changes of Jobs come in, whoever writes them. What goes out are Jobs that are resumed, in the pass in which the last thing that
// has held them back is over. Decisions are pure functions of what is known and the time; Holds is the concern of the control loop
// that carries them out. Everything is looked up by what it waits for: a Job that holds back nobody, and is not held back itself,
// costs nothing.
package hold
