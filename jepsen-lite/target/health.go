package target

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// lockdHealth implements Health.
type lockdHealth struct{ *fleet }

// Healthy implements Health. It starts all nodes that are down before it asks the first one: without a leader the first
// node takes no write, and the rest would not be started.
func (t lockdHealth) Healthy(ctx context.Context) error {
	processes := lockdProcesses(t)
	for _, name := range t.names {
		_ = processes.Restart(name) // tried again below
	}
	for _, name := range t.names {
		err := poll(ctx, 50*time.Millisecond, func() error {
			if err := processes.Restart(name); err != nil { // the removal of a lost disk's member may have failed above
				return err
			}
			return t.takesWrite(name)
		})
		if err != nil {
			return fmt.Errorf("node %s takes no write: %w", name, err)
		}
	}
	return nil
}

// takesWrite sends a write to a node through its proxy.
func (t lockdHealth) takesWrite(node string) error {
	c, err := t.Connect(t.nodes[node].client.Addr(), time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := c.Do(5*time.Second, "SET", "health:"+node, "1")
	if err == nil && r.Str != "OK" {
		err = errors.New(r.Text())
	}
	return err
}

// Converged implements Health. Different hashes at one index stay different for ever, so it does not wait then.
func (t lockdHealth) Converged(ctx context.Context) error {
	seen := map[string][2]string{} // index -> hash, node
	var fork error
	err := poll(ctx, 20*time.Millisecond, func() error {
		indexes := map[string]bool{}
		for _, name := range t.names {
			if t.nodes[name].isDead(0) {
				continue
			}
			r, err := t.Do(name, 5*time.Second, "LOCKD", "HASH")
			if err != nil {
				return fmt.Errorf("node %s: %w", name, err)
			}
			if len(r.Elems) != 2 {
				return fmt.Errorf("node %s: LOCKD HASH answers %q", name, r.Text())
			}
			index, hash := r.Elems[0].Text(), r.Elems[1].Text()
			if other, ok := seen[index]; ok && other[0] != hash {
				fork = fmt.Errorf("states differ at index %s: %s has %s, %s has %s",
					index, other[1], other[0], name, hash)
				return nil
			}
			seen[index] = [2]string{hash, name}
			indexes[index] = true
		}
		if len(indexes) > 1 {
			return fmt.Errorf("the nodes have applied different entries: %v", indexes)
		}
		return nil
	})
	return errors.Join(fork, err)
}

// Deaths implements Health.
func (t lockdHealth) Deaths() []string {
	var all []string
	for _, name := range t.names {
		all = append(all, t.nodes[name].takeDeaths()...)
	}
	return all
}

// deadLook is longer than a process that refuses to start takes to end.
const deadLook = 5 * time.Second

// Dead implements Health.
func (t lockdHealth) Dead() (nodes []string) {
	for _, name := range t.names {
		if t.nodes[name].isDead(deadLook) {
			nodes = append(nodes, name)
		}
	}
	return nodes
}

// Ends implements Health.
func (t lockdHealth) Ends() Ends {
	var lives []life
	var claims []claim
	for _, name := range t.names {
		p := &t.nodes[name].proc
		lives = append(lives, p.takeLives()...)
		claims = append(claims, p.takeClaims()...)
	}
	return judgeEnds(lives, claims, t.net)
}

// Races implements Health.
func (t lockdHealth) Races() []string {
	var all []string
	for _, name := range t.names {
		all = append(all, t.nodes[name].takeRaces()...)
	}
	return all
}
