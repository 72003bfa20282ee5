package causes

import "github.com/jobd/jobd/api/why"

// expected adds to what a Job waits for, before it has begun, when it is expected to start, or why nobody knows.
func (v *jobView) expected(c *why.Cause) {
	switch f := v.Forecast; {
	case f == nil:
	case f.Starts != nil:
		c.Brief += ", " + f.Starts.Brief(v.Now)
		c.Message += " Its start is " + f.Starts.Brief(v.Now) + "."
	case f.Unknown != "":
		c.Message += " When it starts is unknown: " + f.Unknown + "."
	}
}
