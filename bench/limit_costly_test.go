package main

import (
	"errors"
	"testing"
)

// Only the answers of the limits are refusals; a request that is wrong would cost nothing.
func TestIsRefusal(t *testing.T) {
	for answer, want := range map[string]bool{
		"n1 answered EVAL with -ERR this request has done as much as one may: this command was not executed": true,
		"n1 answered EVAL with -ERR Script stopped: it needs more than its limit of 10000000 steps":          true,
		"n1 answered SUNIONSTORE with -ERR wrong number of arguments for 'sunionstore' command":              false,
		"n1 answered EVAL with -ERR user_script:1: Script attempted to access nonexistent global 'nil'":      false,
	} {
		if isRefusal(errors.New(answer)) != want {
			t.Errorf("%s: a refusal: %t", answer, !want)
		}
	}
	if isRefusal(nil) {
		t.Error("no error is a refusal")
	}
}
