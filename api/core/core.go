// Package core holds the rules of the kinds of the core group: defaults, what is set on a write, validation, warnings,
// tables and selectable fields. They are returned as descriptions by PodKind and its like; the other exported functions
// serve groups whose kinds hold pod templates, and the control loop. The rules are plain functions that touch nothing
// but their arguments.
package core
