package server

import "lockd/resp"

// splitInline splits an inline command.
func splitInline(line string) ([]string, error) {
	words, ok := resp.SplitWords(line)
	if !ok {
		return nil, errUnbalancedQuotes
	}
	return words, nil
}
