// Package assets has the files of the page that draws Jobs, to be served or inlined: one ES module and one style sheet,
// without dependencies and ready for a browser.
package assets

import "embed"

// FS has the files: picture.js and picture.css.
//
//go:embed *.js *.css
var FS embed.FS
