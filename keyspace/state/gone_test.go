package state

import (
	"strings"
	"testing"
)

// Which lock a script has told of is read from the channel, as Redisson names it.
func TestNamesOfRedissonsChannels(t *testing.T) {
	for _, key := range []string{"order:42", "a}b", "{shop}:42", "x{shop}", "a:b:c", ""} {
		name := "{" + key + "}"
		if strings.Contains(key, "{") {
			name = key
		}
		next := ":" + strings.Repeat("0123456789abcdef-", 2) + ":3" // the program and the thread that are next
		for _, channel := range []string{"redisson_lock__channel:" + name, "redisson_rwlock:" + name, "redisson_lock__channel:" + name + next} {
			told := map[string]bool{}
			if addNamed(told, channel); !told[key] || told["another"] || len(told) > 4 {
				t.Errorf("%s: %v, want %q", channel, told, key)
			}
		}
	}
}
