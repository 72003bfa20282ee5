// Package batch holds the rules of the kinds of the batch group as plain functions: defaults, what is set on a
// write, validation, warnings, tables and selectable fields. Pod templates follow the rules of package core.
package batch
