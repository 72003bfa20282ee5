package protocol

// Exec is a further process of a running container: with the user, limits and environment of its first one.
type Exec struct {
	Args []string `json:"args"`
	// TTY gives it a terminal of its own instead of three streams.
	TTY bool `json:"tty,omitempty"`
	// Stdin says that something will be written to it. Without it, and without TTY, the process reads the end of a file
	// at once.
	Stdin bool `json:"stdin,omitempty"`
	// Own runs the shard's own program with Args, which the container's image need not have.
	Own bool `json:"own,omitempty"`
	// Outlives says that the process lives on when the daemon hangs up. It then reads the end of its input, or its terminal
	// hangs up, and what it writes is dropped. How many such processes a container has at a time is bounded.
	Outlives bool `json:"outlives,omitempty"`
}

// Attach asks for the streams of a container's first process, from now on. Several may be attached at the same time.
type Attach struct {
	Stdin  bool `json:"stdin,omitempty"`
	Stdout bool `json:"stdout,omitempty"`
	Stderr bool `json:"stderr,omitempty"`
}

// Attached says what an attacher got. The files come in this order: the terminal, or else stdin, then stdout and
// stderr.
type Attached struct {
	// Terminal: the container has one. All output comes by Stdout, and Stdin is written to the terminal.
	Terminal bool `json:"terminal,omitempty"`
	Stdin    bool `json:"stdin,omitempty"`
	Stdout   bool `json:"stdout,omitempty"`
	Stderr   bool `json:"stderr,omitempty"`
	// StdinOnce: the container's stdin is to be closed when this attacher has no more input for it.
	StdinOnce bool `json:"stdinOnce,omitempty"`
}
