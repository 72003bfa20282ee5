package submit

import "github.com/jobd/jobd/submit/progress"

// Images are the images of jobd.
type Images struct{}

var _ progress.Transfer
