// Package etcd wraps the parts of etcd's own Go client that measurements need.
package etcd

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// dialMax bounds how long a connection may take.
const dialMax = 5 * time.Second

// Conn is a connection to one server, which many clients may use at the same time.
type Conn struct {
	client *clientv3.Client
	addr   string
}

// Dial returns a connection to the server at addr; it is made by the first request.
func Dial(addr string) (*Conn, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{addr}, DialTimeout: dialMax, Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, err
	}
	return &Conn{client, addr}, nil
}

// Status tells the server's version, and whether it leads.
func (c *Conn) Status(ctx context.Context) (version string, leads bool, err error) {
	s, err := c.client.Status(ctx, c.addr)
	if err != nil {
		return "", false, err
	}
	return s.Version, s.Leader == s.Header.MemberId, nil
}

// Get reads a key, linearizably; its value is empty if there is none.
func (c *Conn) Get(ctx context.Context, key string) (string, error) {
	got, err := c.client.Get(ctx, key)
	if err != nil || len(got.Kvs) == 0 {
		return "", err
	}
	return string(got.Kvs[0].Value), nil
}

// Put writes a key.
func (c *Conn) Put(ctx context.Context, key, value string) error {
	_, err := c.client.Put(ctx, key, value)
	return err
}

// PutAll puts pairs of keys and values in one transaction.
func (c *Conn) PutAll(ctx context.Context, pairs [][2]string) error {
	var puts []clientv3.Op
	for _, p := range pairs {
		puts = append(puts, clientv3.OpPut(p[0], p[1]))
	}
	_, err := c.client.Txn(ctx).Then(puts...).Commit()
	return err
}

// DeletePrefix deletes all keys that begin so.
func (c *Conn) DeletePrefix(ctx context.Context, prefix string) error {
	_, err := c.client.Delete(ctx, prefix, clientv3.WithPrefix())
	return err
}

// Grant creates a lease. It ends by Revoke, or after length.
func (c *Conn) Grant(ctx context.Context, length time.Duration) (lease int64, err error) {
	granted, err := c.client.Grant(ctx, int64(length/time.Second))
	if err != nil {
		return 0, err
	}
	return int64(granted.ID), nil
}

// Revoke ends a lease and deletes the keys bound to it.
func (c *Conn) Revoke(ctx context.Context, lease int64) error {
	_, err := c.client.Revoke(ctx, clientv3.LeaseID(lease))
	return err
}

// Acquire puts a key that is not there, bound to a lease, and reports whether it did.
func (c *Conn) Acquire(ctx context.Context, key, value string, lease int64) (bool, error) {
	r, err := c.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, value, clientv3.WithLease(clientv3.LeaseID(lease)))).Commit()
	if err != nil {
		return false, err
	}
	return r.Succeeded, nil
}

// Release deletes a key that has this value, and reports whether it did.
func (c *Conn) Release(ctx context.Context, key, value string) (bool, error) {
	r, err := c.client.Txn(ctx).If(clientv3.Compare(clientv3.Value(key), "=", value)).
		Then(clientv3.OpDelete(key)).Commit()
	if err != nil {
		return false, err
	}
	return r.Succeeded, nil
}

// Close ends the connection.
func (c *Conn) Close() error { return c.client.Close() }

// Serves returns nil if the server at addr has a leader and reports it, and otherwise the reason.
func Serves(ctx context.Context, addr string) error {
	c, err := Dial(addr)
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
