// Package etcd is etcd's own Go client, as far as measurements need it.
package etcd

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"lockd/bench/load"
)

// dialMax bounds how long a connection may take.
const dialMax = 5 * time.Second

type conn struct {
	client *clientv3.Client
	addr   string
}

// Dial returns a connection to the server at addr; it is made by the first request.
func Dial(addr string) (load.Etcd, error) { return dial(addr) }

func dial(addr string) (*conn, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{addr}, DialTimeout: dialMax, Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, err
	}
	return &conn{client, addr}, nil
}

func (c *conn) Status(ctx context.Context) (version string, leads bool, err error) {
	s, err := c.client.Status(ctx, c.addr)
	if err != nil {
		return "", false, err
	}
	return s.Version, s.Leader == s.Header.MemberId, nil
}

func (c *conn) Get(ctx context.Context, key string) (string, error) {
	got, err := c.client.Get(ctx, key)
	if err != nil || len(got.Kvs) == 0 {
		return "", err
	}
	return string(got.Kvs[0].Value), nil
}

func (c *conn) Put(ctx context.Context, key, value string) error {
	_, err := c.client.Put(ctx, key, value)
	return err
}

func (c *conn) PutAll(ctx context.Context, pairs [][2]string) error {
	var puts []clientv3.Op
	for _, p := range pairs {
		puts = append(puts, clientv3.OpPut(p[0], p[1]))
	}
	_, err := c.client.Txn(ctx).Then(puts...).Commit()
	return err
}

func (c *conn) DeletePrefix(ctx context.Context, prefix string) error {
	_, err := c.client.Delete(ctx, prefix, clientv3.WithPrefix())
	return err
}

func (c *conn) Grant(ctx context.Context, length time.Duration) (lease int64, err error) {
	granted, err := c.client.Grant(ctx, int64(length/time.Second))
	if err != nil {
		return 0, err
	}
	return int64(granted.ID), nil
}

func (c *conn) Revoke(ctx context.Context, lease int64) error {
	_, err := c.client.Revoke(ctx, clientv3.LeaseID(lease))
	return err
}

func (c *conn) Acquire(ctx context.Context, key, value string, lease int64) (bool, error) {
	r, err := c.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, value, clientv3.WithLease(clientv3.LeaseID(lease)))).Commit()
	if err != nil {
		return false, err
	}
	return r.Succeeded, nil
}

func (c *conn) Release(ctx context.Context, key, value string) (bool, error) {
	r, err := c.client.Txn(ctx).If(clientv3.Compare(clientv3.Value(key), "=", value)).
		Then(clientv3.OpDelete(key)).Commit()
	if err != nil {
		return false, err
	}
	return r.Succeeded, nil
}

func (c *conn) Close() error { return c.client.Close() }

// Serves reports what keeps the server at addr from serving: it has a leader, and says so.
func Serves(ctx context.Context, addr string) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // nothing waits for it any more
	ctx, cancel := context.WithTimeout(ctx, dialMax)
	defer cancel()
	s, err := c.client.Status(ctx, addr)
	if err == nil && s.Leader == 0 {
		err = fmt.Errorf("%s has no leader", addr)
	}
	return err
}
