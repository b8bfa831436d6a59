package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Three processes without a list found one cluster, whichever is killed on the way; a fourth joins with the same
// flags, and later starts change nothing.
func TestDiscover(t *testing.T) {
	t.Parallel()
	const n = 4
	ports, dir := freePorts(t, 2*n), t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("the secret of these nodes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var at []string
	for _, port := range ports[n:] {
		at = append(at, fmt.Sprintf("127.0.0.1:%d", port))
	}
	start := func(i int) *proc {
		id, addr := fmt.Sprintf("n%d", i+1), fmt.Sprintf("127.0.0.1:%d", ports[i])
		return launch(t, id, addr, append([]string{"serve", "--id", id, "--listen", addr, "--peer-listen", at[i],
			"--dir", filepath.Join(dir, id), "--peer-secret-file", secret, "--requirepass", "a password",
			"--expect", "3", "--discover", strings.Join(at, ",")}, calm...)...)
	}
	all := nodes{start(0), start(1)}
	eventually(t, startTimeout, "n1 has met n2", func() error {
		if !strings.Contains(all[0].log.String(), "it waits for more empty nodes: it has found n1, n2, and a cluster is founded by 3") {
			return errors.New(all[0].log.tail(3))
		}
		return nil
	})
	all[1].Kill()
	all = append(all, start(2))
	all[1].start()
	for _, p := range all {
		p.awaitServing()
	}
	ids := func(p *proc) (ids []string, cluster string) {
		members, err := p.client().Do(context.Background(), "LOCKD", "MEMBERS").Slice()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range members {
			ids = append(ids, fmt.Sprint(m.(map[any]any)["id"]))
		}
		slices.Sort(ids)
		info, _ := p.client().Info(context.Background(), "raft").Result()
		_, cluster, _ = strings.Cut(info, "cluster_id:")
		cluster, _, _ = strings.Cut(cluster, "\r\n")
		return ids, cluster
	}
	_, founded := ids(all[0])
	all = append(all, start(3))
	all[3].awaitServing()
	for _, p := range all {
		p.Kill()
	}
	for i := range all {
		all[n-1-i].start()
	}
	for _, p := range all {
		p.awaitServing()
		if got, cluster := ids(p); strings.Join(got, " ") != "n1 n2 n3 n4" || cluster != founded || founded == "" {
			t.Errorf("%s has the members %q of cluster %q, want four of %q", p.name, got, cluster, founded)
		}
	}
}

// --discover stands for all addresses of its names, and a name that cannot be resolved hides no other.
func TestAddrsAt(t *testing.T) {
	lookup := func(_ context.Context, name string) ([]string, error) {
		if name == "none" {
			return nil, errors.New("no such host")
		}
		return []string{"10.0.0.1", "fd00::1"}, nil
	}
	got, err := addrsAt(t.Context(), []string{"dns:none:1", "dns:nodes:16379", "h:2"}, lookup)
	if want := "10.0.0.1:16379 [fd00::1]:16379 h:2"; strings.Join(got, " ") != want || err == nil || err.Error() != "no such host" {
		t.Errorf("got %q, %v", got, err)
	}
}
