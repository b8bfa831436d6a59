//go:build golden

package main

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"lockd/cmd/lockd/redisconf"
)

// Every setting of Redis 7.0.15 is known in a file, and its default there asks for nothing.
func TestGoldenRedisConf(t *testing.T) {
	referee := redis.NewClient(&redis.Options{Addr: startRedis(t), MaxRetries: -1})
	defer referee.Close()
	theirs, err := referee.ConfigGet(context.Background(), "*").Result()
	if err != nil || len(theirs) < 150 {
		t.Fatalf("%d settings, %v", len(theirs), err)
	}
	for name, value := range theirs {
		if !meansSomething(t, name) {
			t.Errorf("%s is not known: give it a line in cmd/lockd/redisconf/meaning.go", name)
		}
		words, err := redisconf.Split(value)
		if err != nil {
			t.Errorf("%s %q: %v", name, value, err)
		}
		if m, only := redisconf.MeaningOf(name); only && !m.AsksNothing(words) {
			t.Errorf("%s %s is warned of, though it is Redis's default", name, value)
		}
	}
}
