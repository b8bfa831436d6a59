package mutation

import "go/token"

// kind is the name of a mistake, as in the id of a mutant.
type kind string

// The kinds besides those of operators.
const (
	swap    kind = "swap"     // a condition of if or switch is turned round
	plusOne kind = "plus-one" // a number is one greater
	drop    kind = "drop"     // a statement that is a call, or assigns what a call returned, does nothing
)

// operator replaces a token by another.
type operator struct {
	kind kind
	to   token.Token
}

// compared and joined are the mistakes in expressions whose value is true or false.
var (
	compared = map[token.Token]operator{
		token.LSS: {"lt-le", token.LEQ},
		token.LEQ: {"le-lt", token.LSS},
		token.GTR: {"gt-ge", token.GEQ},
		token.GEQ: {"ge-gt", token.GTR},
		token.EQL: {"eq-ne", token.NEQ},
		token.NEQ: {"ne-eq", token.EQL},
	}
	joined = map[token.Token]operator{
		token.LAND: {"and-or", token.LOR},
		token.LOR:  {"or-and", token.LAND},
	}
)

// counted are the mistakes in numbers.
var counted = map[token.Token]operator{
	token.ADD:        {"plus-minus", token.SUB},
	token.SUB:        {"minus-plus", token.ADD},
	token.ADD_ASSIGN: {"plus-minus", token.SUB_ASSIGN},
	token.SUB_ASSIGN: {"minus-plus", token.ADD_ASSIGN},
	token.INC:        {"inc-dec", token.DEC},
	token.DEC:        {"dec-inc", token.INC},
}

// words are the mistakes in words that Go knows.
var words = map[string]struct {
	kind kind
	to   string
}{
	"true":  {"true-false", "false"},
	"false": {"false-true", "true"},
	"min":   {"min-max", "max"},
	"max":   {"max-min", "min"},
}
