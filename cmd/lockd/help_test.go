package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// HELP of every container, of a node and of its sentinel, lists the subcommands that COMMAND shows.
func TestHelpListsSubcommands(t *testing.T) {
	t.Parallel()
	addr := fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0])
	node := startSingle(t, "--cluster-protocol", "--sentinel-listen", addr).client()
	sentinel := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: startTimeout})
	defer sentinel.Close()
	var containers []string
	for _, c := range []*redis.Client{node, sentinel} {
		list, err := c.Do(context.Background(), "COMMAND").Slice()
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range list {
			row := of.([]any)
			name, subs := strings.ToUpper(row[0].(string)), row[9].([]any)
			if len(subs) == 0 {
				continue
			}
			containers = append(containers, name)
			lines, err := c.Do(context.Background(), name, "HELP").StringSlice()
			if err != nil {
				t.Errorf("%s HELP: %v", name, err)
			}
			for _, sub := range subs {
				word := strings.TrimPrefix(strings.ToUpper(sub.([]any)[0].(string)), name+"|")
				if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line+" ", word+" ") }) {
					t.Errorf("%s HELP says nothing of %s", name, word)
				}
			}
		}
	}
	if want := []string{"CLUSTER", "LOCKD", "OBJECT", "PUBSUB", "SENTINEL"}; slices.ContainsFunc(want, func(name string) bool {
		return !slices.Contains(containers, name)
	}) {
		t.Errorf("only %v have subcommands", containers)
	}
}
