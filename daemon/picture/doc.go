// Package picture draws Jobs and, as graphs of their groups, JobSets (DrawSet). Of a Job it keeps what has run in little
// room (Ended), and makes a picture.Picture of that and of the Job's status (Draw), whole or what has changed of it (Roll). All of it is
// pure; the pods come from the history, and whoever draws brings the pods that run.
//
// # How it is used
//
//	ended := picture.NewEnded(job, indexed)
//	ended.Add(pod)   // for each pod that has ended, in the order of the history
//	ended.Tail(pods) // pods that have ended and are not in the history yet: they replace those of the last call
//
//	drawing := picture.Draw(subject, ended, running, now)
//	at, err := roll.Show(drawing) // at is the number of the picture
//	roll.Since(cursor)            // what has changed since another one, for somebody who has that
//	roll.Whole()                  // all of it, for everybody else
//
// # What is ordered
//
// The pods are in the order in which they were added, which is that of the history. The pictures of a Roll are numbered from
// 1 on, and a picture that shows nothing new has the number of the last one. Since gives the difference between two numbers;
// it knows a bounded number of changes and says so when it cannot answer.
//
// # What is durable
//
// Nothing: the pods are read from the history again after a restart of the daemon, and cursors of an earlier daemon are
// answered with the whole picture.
//
// # Costs, and who may call
//
// A pod takes some 40 bytes. A drawing takes time for each pod, so whoever draws decides how often. An Ended and
// a Roll must not be used by several goroutines at a time; Draw only reads the Ended, but sorts the pods that run in
// place. What Whole and Since return shares its parts with the Roll, and must not be changed. Nothing in this package
// blocks.
package picture
