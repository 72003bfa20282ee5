package control

// Records is how many Jobs and pods the loop has records of.
func (c *Control) Records() int { return len(c.records.jobs.known) + len(c.records.pods.known) }

// Running and Waiting are how many pods the node has admitted, and how many wait for that.
func (c *Control) Running() int { return c.records.queue.capacity.Running() }
func (c *Control) Waiting() int { return c.records.queue.capacity.Waiting() }

// Rebuild reads the records as a start does.
func (c *Control) Rebuild() error { return c.loop.Rebuild() }

// Dirty is how many pods are to be looked at.
func (c *Control) Dirty() int { return c.records.pods.dirty.Len() }
