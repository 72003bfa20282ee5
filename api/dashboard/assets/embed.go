// Package assets has the files of the page that draw Jobs and JobSets, to be served or inlined: an ES module for each and one style
// sheet, without dependencies and ready for a browser.
package assets

import "embed"

// FS has the files: picture.js, set.js, which needs it, and picture.css.
//
//go:embed *.js *.css
var FS embed.FS
