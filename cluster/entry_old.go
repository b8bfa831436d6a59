package cluster

import (
	"strconv"

	"lockd/resp"
)

// fromCommands puts a request of an entry before version 4 into today's form. A request asked
// for a Trace by the command "tracked" at its end, and steps of blocking commands were
// commands of a container "block":
//
//	open   ask SESSION NUMBER SPENT-MS COMMAND...   close SESSION...
//	keep SESSION...   cancel SESSION NUMBER
//
// the last two together in one request. What is of no such form stays as it is.
func fromCommands(req resp.Request) resp.Request {
	n := len(req.Cmds)
	if n > 1 && req.Cmds[n-1].Args[0] == "tracked" {
		req.Cmds, req.Trace = req.Cmds[:n-1], true
	}
	if n == 0 || req.Cmds[0].Args[0] != "block" || len(req.Cmds[0].Args) < 2 {
		return req
	}
	first := req.Cmds[0].Args
	switch numbers, ok := parseNumbers(first[2:]); {
	case first[1] == "open" && n == 1:
		return resp.BlockOpening()
	case first[1] == "ask" && n == 1 && len(first) >= 6:
		if numbers, ok = parseNumbers(first[2:5]); ok {
			id := resp.BlockID{Session: numbers[0], Number: numbers[1]}
			return resp.BlockAsking(id, int64(numbers[2]), resp.Cmd{DB: req.Cmds[0].DB, Args: first[5:]})
		}
	case first[1] == "close" && n == 1 && ok:
		return resp.BlockClosing(numbers)
	default:
		if step, ok := tendFromCommands(req.Cmds); ok {
			return resp.Request{Block: step}
		}
	}
	return req
}

func tendFromCommands(cmds []resp.Cmd) (*resp.BlockStep, bool) {
	step := &resp.BlockStep{Kind: resp.BlockTend}
	for i, c := range cmds {
		if len(c.Args) < 3 || c.Args[0] != "block" {
			return nil, false
		}
		numbers, ok := parseNumbers(c.Args[2:])
		switch {
		case !ok:
			return nil, false
		case i == 0 && c.Args[1] == "keep":
			step.Sessions = numbers
		case c.Args[1] == "cancel" && len(numbers) == 2:
			step.Cancels = append(step.Cancels, resp.BlockID{Session: numbers[0], Number: numbers[1]})
		default:
			return nil, false
		}
	}
	return step, true
}

func parseNumbers(words []string) ([]uint64, bool) {
	numbers := make([]uint64, len(words))
	for i, w := range words {
		n, err := strconv.ParseUint(w, 10, 63)
		if err != nil {
			return nil, false
		}
		numbers[i] = n
	}
	return numbers, true
}
