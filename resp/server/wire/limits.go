package wire

// The bounds of a pipeline: of what has arrived so much is taken at once, and becomes one run.
const (
	PipelineCmdsMax  = 1024    // commands
	PipelineBytesMax = 1 << 20 // bytes, but for the last command
)

// Limits of what one client may make a connection hold.
const (
	inlineBytesMax     = 64 << 10    // one line: an inline command, or a length
	multibulkMax       = 1024 * 1024 // arguments of one command
	unauthMultibulkMax = 10          // the same before AUTH
	unauthBulkBytesMax = 16 << 10    // one argument before AUTH
	replyBytesMax      = 32 << 20    // replies that wait for a slow reader before its session waits too
)

// Sizes that trade memory for system calls.
const (
	inputBytesMin  = 4 << 10  // a connection's input buffer when it is quiet
	inputBytesKeep = 64 << 10 // a larger one is given back as soon as it is empty
	batchBytesKeep = 64 << 10 // the same for the output of the writer goroutine
)
