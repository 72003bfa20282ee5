// Package core holds the rules of the kinds of the core group: defaults, what is set on a write, validation, warnings,
// tables and selectable fields. They come out as the descriptions that PodKind and its like return; what else is
// exported serves groups whose kinds hold pod templates, and the loop. The rules are plain functions that touch nothing
// but their arguments.
package core
