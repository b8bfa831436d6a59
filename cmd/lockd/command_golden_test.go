//go:build golden

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// otherwise lists the differences of COMMAND INFO from Redis 7.0.15, with the reason.
var otherwise = map[string]string{
	"zrank arity":    "since 7.2 it takes WITHSCORE",
	"zrevrank arity": "since 7.2 it takes WITHSCORE",

	"cluster|reset flags": "it is refused everywhere",
}

// COMMAND INFO of every command of Redis 7.0.15 agrees with Redis: flags, keys and key specifications, also of
// subcommands. It excludes no_async_loading, because lockd does not load while it serves, and the categories.
func TestGoldenCommandInfo(t *testing.T) {
	referee := redis.NewClient(&redis.Options{Addr: startRedis(t), MaxRetries: -1, ReadTimeout: startTimeout})
	defer referee.Close()
	theirs := map[string][]any{}
	gather(theirs, commandInfo(t, referee))
	mine := map[string][]any{}
	gather(mine, commandInfo(t, startSingle(t).client()))
	for name, row := range mine {
		if theirs[name] == nil {
			continue
		}
		for i, what := range map[int]string{1: "arity", 2: "flags", 3: "first", 4: "last", 5: "step", 8: "key specs"} {
			got, want := plain(row[i]), plain(theirs[name][i])
			if why := otherwise[name+" "+what]; (got != want) != (why != "") {
				t.Errorf("%s, %s: mend the row (its Access makes the key specs), or write why they differ into otherwise of "+
					"cmd/lockd/command_golden_test.go, which has %q\nlockd  %s\nredis  %s", name, what, why, got, want)
			}
		}
	}
}

// COMMAND GETKEYS tells the keys of a call, COMMAND GETKEYSANDFLAGS also what is done with each. A number of keys may be
// 0 where a command can do without, and is an error where it cannot.
func TestGoldenKeysAndFlags(t *testing.T) {
	referee := redis.NewClient(&redis.Options{Addr: startRedis(t), MaxRetries: -1, ReadTimeout: startTimeout})
	defer referee.Close()
	mine := startSingle(t).client()
	for _, call := range []string{
		"SET k v", "SET k v GET", "GET k", "MSET a 1 b 2", "DEL a b c", "LMOVE a b LEFT RIGHT", "COPY a b", "RENAME a b",
		"SUNIONSTORE d a b", "SINTERSTORE d a", "ZUNIONSTORE d 2 a b", "ZUNION 2 a b",
		"ZRANGESTORE d s 0 -1", "LMPOP 2 a b LEFT", "EVAL return 2 a b c", "OBJECT ENCODING k", "MEMORY USAGE k", "HSET h f v", "PING",
		"ZINTERCARD 0 k", "ZINTERCARD -1 k", "ZINTERCARD x k", "ZINTERCARD 9 k", "ZINTERCARD 2 k", "SINTERCARD 0 k", "ZUNION 0 a",
		"ZUNIONSTORE d 0 a", "LMPOP 0 a LEFT", "BLMPOP 0 0 a LEFT", "ZMPOP 0 a MIN", "EVAL return 0", "EVAL return 0 a",
		"EVAL return -1 a", "EVALSHA x 0", "FCALL f 0", "FCALL f 0 a", "FCALL_RO f 3 a", "ZINTERCARD 1 k LIMIT 1",
		"EVALSHA x 2 a", "EVALSHA x -1 a", "EVALSHA x many a", "EVALSHA x 1 a b", "EVALSHA_RO x 2 a",
		"FCALL f 2 a", "FCALL f -1 a", "FCALL f many a", "FCALL f 1 a b", "FCALL_RO f 1 a b",
	} {
		for _, asks := range []string{"GETKEYS", "GETKEYSANDFLAGS"} {
			words := []any{"COMMAND", asks}
			for _, word := range strings.Fields(call) {
				words = append(words, word)
			}
			got, err1 := mine.Do(context.Background(), words...).Result()
			want, err2 := referee.Do(context.Background(), words...).Result()
			if fmt.Sprint(got, err1) != fmt.Sprint(want, err2) {
				t.Errorf("%s %s\nlockd  %v %v\nredis  %v %v", asks, call, got, err1, want, err2)
			}
		}
	}
}

func commandInfo(t *testing.T, c *redis.Client) []any {
	t.Helper()
	list, err := c.Do(context.Background(), "COMMAND").Slice()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// gather lists commands and subcommands by name.
func gather(by map[string][]any, list []any) {
	for _, c := range list {
		row := c.([]any)
		by[row[0].(string)] = row
		if subs, ok := row[9].([]any); ok {
			gather(by, subs)
		}
	}
}

// plain writes a value with its sets and maps in order, and without notes.
func plain(v any) string {
	var words []string
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if e != "no_async_loading" {
				words = append(words, plain(e))
			}
		}
	case map[any]any:
		for key, e := range v {
			if key != "notes" {
				words = append(words, fmt.Sprint(key, "=", plain(e)))
			}
		}
	default:
		return fmt.Sprint(v)
	}
	slices.Sort(words)
	return "{" + strings.Join(words, " ") + "}"
}
