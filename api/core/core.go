// Package core holds the rules of the kinds of the core group as plain functions: defaults, what is set on a
// write, validation, warnings, tables and selectable fields. Nothing here reads or writes anything but its
// arguments.
package core
