// Package crash lets a test end this process, as kill -9 would, or make it hang, at a point of its choice. It is built with
// the tag crash; without it nothing of this is in the program.
package crash
