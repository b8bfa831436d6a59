package resp

// Script is the code of a script, or of a library of functions, after a first line that begins with #!.
type Script struct {
	SHA    string // the SHA1 of the whole text, the first line included, in 40 lower-case hex digits
	Source string
}

// ScriptLimits bound one run of a script. They are replicated settings: equal on every node at every entry of the
// log.
type ScriptLimits struct {
	Steps    int64 // instructions and library work, in steps
	MemBytes int64 // growth of strings and tables, in bytes
	StepsOf  int64 // the full limit, which an error names, if Steps is only the rest of it; 0: Steps is
}

// ScriptCall runs one command for redis.call and redis.pcall, and returns its reply, which may be an error. left is
// the number of steps that the script has left; the command may use some of them. If none are left after the call,
// the script ends as at its own limit.
//
// A call of ScriptMay does not run the call that follows it: it asks whether the user of the script may make it. The
// reply is 1, 0, or an error if there is no such command.
type ScriptCall func(args Args, left int64) (reply Reply, leftThen int64)

// ScriptMay is not the name of any command; see ScriptCall.
const ScriptMay = "\x00may"

// Function is a function that redis.register_function registers.
type Function struct {
	Name        string
	Description string
	Described   bool // it has a description, perhaps an empty one
	Flags       FunctionFlags
}

// FunctionFlags are the flags of a function.
type FunctionFlags uint8

// The flags of functions. Only NoWrites and AllowOOM have an effect here: no node
// answers from stale data, and each can run any function.
const (
	NoWrites FunctionFlags = 1 << iota
	AllowOOM
	AllowStale
	NoCluster
	AllowCrossSlotKeys

	functionFlagsEnd
)

// AllFunctionFlags is the set of all flags.
const AllFunctionFlags = functionFlagsEnd - 1

var functionFlagNames = []string{"no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"}

// FunctionFlag returns the flag of a word in any case; 0 if the word names none.
func FunctionFlag(word string) FunctionFlags {
	for i, name := range functionFlagNames {
		if Is(word, name) {
			return 1 << i
		}
	}
	return 0
}

// Names lists the flags in Redis's order.
func (f FunctionFlags) Names() []string {
	names := []string{}
	for i, name := range functionFlagNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// FunctionNameRule is Redis's error for a name that IsFunctionName refuses.
const FunctionNameRule = "Library names can only contain letters, numbers, or underscores(_) and must be at least " +
	"one character long"

// IsFunctionName reports whether a name is valid for a library or a function.
func IsFunctionName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return name != ""
}
