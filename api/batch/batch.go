// Package batch holds the rules of the kinds of the batch group: defaults, what is set on a write, validation,
// warnings, tables and selectable fields. They are returned as the descriptions JobKind and CronJobKind; the control
// loop calls the few exported ones directly. The rules are plain functions that touch nothing but their arguments. Pod
// templates follow the rules of package core.
package batch
