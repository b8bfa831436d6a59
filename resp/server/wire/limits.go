package wire

// The bounds of a pipeline: at most this much is taken of the input at once, and becomes one run.
const (
	PipelineCmdsMax  = 1024    // commands
	PipelineBytesMax = 1 << 20 // bytes, but for the last command
)

// Limits of what one client may make a connection hold.
const (
	inlineBytesMax     = 64 << 10    // one line: an inline command, or a length
	multibulkMax       = 1024 * 1024 // arguments of one command
	unauthMultibulkMax = 10          // arguments of one command before AUTH
	unauthBulkBytesMax = 16 << 10    // one argument before AUTH
	replyBytesMax      = 32 << 20    // pending replies of a slow reader at which its session waits
)

// Sizes that trade memory for system calls.
const (
	inputBytesMin  = 4 << 10  // initial size of a connection's input buffer
	inputBytesKeep = 64 << 10 // a larger one is freed as soon as it is empty
	batchBytesKeep = 64 << 10 // a larger buffer of the writer goroutine is freed
)
