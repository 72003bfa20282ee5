// Package batch holds the rules of the kinds of the batch group: defaults, what is set on a write, validation,
// warnings, tables and selectable fields. They come out as the descriptions that JobKind and CronJobKind return, and
// the loop calls the few that are exported itself. The rules are plain functions that touch nothing but their
// arguments. Pod templates follow the rules of package core.
package batch
