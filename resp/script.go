package resp

// Script is the code of a script, or of a library of functions, behind a first line that
// begins with #!.
type Script struct {
	SHA    string // names it: the SHA1 of its whole text, the first line too, 40 lower-case hex digits
	Source string
}

// ScriptLimits bound one run of a script. They are replicated settings: the same
// on every node at every entry of the log.
type ScriptLimits struct {
	Steps    int64 // instructions and library work, in steps
	MemBytes int64 // growth of strings and tables, in bytes
	StepsOf  int64 // the limit of which Steps are what is left: it is the one that an error names; 0 for Steps
}

// ScriptCall runs one command for redis.call and redis.pcall, and returns its reply, which may be
// an error. left are the script's remaining steps, of which the command may take some. If none are
// left after the call, the script ends as at its own limit.
//
// A call of ScriptMay asks whether the user of the script may make the call that follows: it is not
// made, and the reply is 1, 0, or an error if there is no such command.
type ScriptCall func(args Args, left int64) (reply Reply, leftThen int64)

// ScriptMay is the name of no command; see ScriptCall.
const ScriptMay = "\x00may"

// Function is a function as redis.register_function describes it.
type Function struct {
	Name        string
	Description string
	Described   bool // it has a description, which may be empty
	Flags       FunctionFlags
}

// FunctionFlags are what a function says about itself.
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

// AllFunctionFlags are all flags there are.
const AllFunctionFlags = functionFlagsEnd - 1

var functionFlagNames = []string{"no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"}

// FunctionFlag is the flag that a word names in any case; 0 if it names none.
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

// FunctionNameRule is Redis's answer for a name that IsFunctionName refuses.
const FunctionNameRule = "Library names can only contain letters, numbers, or underscores(_) and must be at least " +
	"one character long"

// IsFunctionName reports whether a library or a function may have a name.
func IsFunctionName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return name != ""
}
