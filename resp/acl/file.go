package acl

import (
	"fmt"
	"strings"

	"lockd/resp"
)

// ReadFile parses a file of users as Redis writes it: a line "user NAME RULE ..." for each; empty lines and comments
// are skipped. The result always has a default user. The error is that of ACL LOAD: all errors, by line.
func ReadFile(known *Commands, path, text string) (*Users, error) {
	users := map[string]*User{}
	var wrong strings.Builder
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.Trim(line, " \t\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		words := strings.Split(line, " ")
		switch {
		case words[0] != "user" || len(words) < 2:
			fmt.Fprintf(&wrong, "%s:%d should start with user keyword followed by the username. ", path, number)
		case !ValidName(words[1]):
			fmt.Fprintf(&wrong, "'%s:%d: username '%s' contains invalid characters. ", path, number, words[1])
		case users[words[1]] != nil:
			fmt.Fprintf(&wrong, "WARNING: Duplicate user '%s' found on line %d. ", words[1], number)
		default:
			user, why := readLine(known, words[1], words[2:])
			users[words[1]] = user
			for _, w := range why {
				fmt.Fprintf(&wrong, "%s:%d: %s. ", path, number, w)
			}
		}
	}
	if wrong.Len() > 0 {
		return nil, resp.Errorf("ERR %sWARNING: ACL errors detected, no change to the previously active ACL rules was performed",
			wrong.String())
	}
	return usersOf(known, users), nil
}

// readLine makes a user of the rules of a line. why lists each unknown command, and the first other error.
func readLine(known *Commands, name string, rules []string) (user *User, why []string) {
	user = New(known, name)
	rules, err := merge(rules)
	if err != nil {
		return user, []string{strings.TrimPrefix(err.Error(), "ERR ")}
	}
	wrong := false
	for _, rule := range rules {
		switch err := user.apply(known, strings.Trim(rule, "\t\r\n")); {
		case err == errUnknown:
			why = append(why, fmt.Sprintf("Error in applying operation '%s': %s", rule, err))
		case err != nil && !wrong:
			wrong, why = true, append(why, err.Error())
		}
	}
	if len(rules) > rulesMax || len(user.written().text) > rulesBytesMax {
		why = append(why, strings.TrimPrefix(errTooMuch, "ERR "))
	}
	return user, why
}
