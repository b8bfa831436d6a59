package load

import (
	"fmt"
	"strconv"
)

// The scripts that programs lock with.
var (
	// releaseScript frees a lock that is still ours.
	releaseScript = newScript(`if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else ` +
		`return 0 end`)

	// The scripts of Redisson's RLock for lock() and unlock(), word for word, because the text of a script affects
	// its cost.
	redissonLock = newScript(
		`if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then ` +
			`redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; ` +
			`return redis.call('pttl', KEYS[1]);`,
	)
	redissonUnlock = newScript(
		`local val = redis.call('get', KEYS[3]); if val ~= false then return tonumber(val);end; ` +
			`if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil;end; local counter = ` +
			`redis.call('hincrby', KEYS[1], ARGV[3], -1); ` +
			`if (counter > 0) then redis.call('pexpire', KEYS[1], ARGV[2]); redis.call('set', KEYS[3], 0, 'px', ` +
			`ARGV[5]); return 0; ` +
			`else redis.call('del', KEYS[1]); redis.call(ARGV[4], KEYS[2], ARGV[1]); redis.call('set', KEYS[3], 1, ` +
			`'px', ARGV[5]); return 1; end;`,
	)

	// stockScript sells one piece, and answers how many are left.
	stockScript = newScript(`local left = tonumber(redis.call('get', KEYS[1])) if left < 1 then return -1 end return ` +
		`redis.call('decr', KEYS[1])`)
)

func (c *redisClient) appendSet(key int) {
	c.command("SET", 3)
	c.argKey(dataPrefix, key)
	c.argValue(key, c.valueSize)
}

func (c *redisClient) appendGet(key int) {
	c.command("GET", 2)
	c.argKey(dataPrefix, key)
}

// expectValue reads the value of a key.
func (c *redisClient) expectValue(key int) error {
	r, err := c.expect("GET", '$')
	if err != nil {
		return err
	}
	c.value = appendValue(c.value[:0], key, c.valueSize)
	if r.null || string(r.text) != string(c.value) {
		return c.wrong("GET of a key whose value is "+string(c.value), r)
	}
	return nil
}

// settle sends the writes that were appended, n of them, and reads the answer to each.
func (c *redisClient) settle(n int, expect func() error) error {
	if err := c.exchange(true); err != nil {
		return err
	}
	for range n {
		if err := expect(); err != nil {
			return err
		}
	}
	return c.waited()
}

// settleInts is settle for writes that must answer 1.
func (c *redisClient) settleInts(name string, n int) error {
	return c.settle(n, func() error { return c.expectInt(name, 1) })
}

func redisSet(c *redisClient) error {
	for range c.pipeline {
		c.appendSet(c.rng.IntN(c.keys))
	}
	return c.settle(c.pipeline, func() error { return c.expectOK("SET") })
}

func redisGet(c *redisClient) error {
	for i := range c.picks {
		c.picks[i] = c.rng.IntN(c.keys)
		c.appendGet(c.picks[i])
	}
	if err := c.exchange(false); err != nil {
		return err
	}
	for _, key := range c.picks {
		if err := c.expectValue(key); err != nil {
			return err
		}
	}
	return nil
}

// appendAcquire asks for a lock, whose key the caller has appended next.
func (c *redisClient) appendAcquire(lock int) {
	c.command("SET", 6)
	c.argKey(lockPrefix, lock)
	c.arg(c.token)
	c.arg("NX")
	c.arg("PX")
	c.argInt(leaseMs)
}

func (c *redisClient) appendRelease(lock int) {
	c.evalsha(releaseScript, 1, 1)
	c.argKey(lockPrefix, lock)
	c.arg(c.token)
}

func redisLock(c *redisClient) error {
	first := c.turn
	c.turn += c.pipeline
	for i := range c.pipeline {
		c.appendAcquire(c.lockOf(c.id, first+i))
	}
	err := c.settle(c.pipeline, func() error { return c.expectOK("SET NX PX on a free lock") })
	if err != nil {
		return err
	}
	for i := range c.pipeline {
		c.appendRelease(c.lockOf(c.id, first+i))
	}
	return c.settleInts("the release of its holder's lock", c.pipeline)
}

func redisReentrant(c *redisClient) error {
	first := c.turn
	c.turn += c.pipeline
	for i := range c.pipeline {
		c.evalsha(redissonLock, 1, 2)
		c.argKey(lockPrefix, c.lockOf(c.id, first+i))
		c.argInt(leaseMs)
		c.arg(c.token)
	}
	err := c.settle(c.pipeline, func() error {
		r, err := c.read()
		if err == nil && !r.null {
			err = c.wrong("lock() of a free lock", r)
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := range c.pipeline {
		c.evalsha(redissonUnlock, 3, 5)
		c.argKey(lockPrefix, c.lockOf(c.id, first+i))
		c.argKey("redisson_lock__channel:"+lockPrefix, c.lockOf(c.id, first+i))
		c.argLatch(first + i)
		c.argInt(0)
		c.argInt(leaseMs)
		c.arg(c.token)
		c.arg("PUBLISH")
		c.argInt(latchMs)
	}
	return c.settleInts("unlock() of its holder's lock", c.pipeline)
}

// latchMs is the time to live of unlock()'s latch, long enough for a retry to find the answer.
const latchMs = 10_000

// argLatch appends the unique name of an unlock()'s latch.
func (c *redisClient) argLatch(turn int) {
	const prefix = keyPrefix + "latch:"
	c.argLen(len(prefix) + len(c.token) + keyDigits)
	c.out = append(c.out, prefix...)
	c.out = append(c.out, c.token...)
	c.out = appendDigits(c.out, turn)
	c.out = append(c.out, '\r', '\n')
}

// redisContend asks for the lock that all clients share, and releases it when it has it.
func redisContend(c *redisClient) error {
	for range c.pipeline {
		c.appendAcquire(contendedLock)
	}
	got := 0
	err := c.settle(c.pipeline, func() error {
		r, err := c.read()
		switch {
		case err != nil:
			return err
		case r.kind == '+' && string(r.text) == "OK":
			got++
		case !r.null:
			return c.wrong("SET NX PX", r)
		}
		return nil
	})
	if got > 1 {
		return fmt.Errorf("%s granted the same lock %d times", c.addr, got)
	}
	if err != nil || got == 0 {
		return err
	}
	c.appendRelease(contendedLock)
	return c.settleInts("the release of its holder's lock", 1)
}

// stockPieces is more than any measurement sells.
const stockPieces = 1 << 40

func fillStock(c *conn, _ *plan) error {
	_, err := c.ask("SET", stockKey, strconv.Itoa(stockPieces))
	return err
}

func redisStock(c *redisClient) error {
	for range c.pipeline {
		c.evalsha(stockScript, 1, 0)
		c.arg(stockKey)
	}
	return c.settle(c.pipeline, func() error {
		r, err := c.expect("the sale of a piece", ':')
		if err != nil {
			return err
		}
		if r.n < 0 || c.left > 0 && r.n >= c.left {
			return c.wrong(fmt.Sprintf("the sale of a piece, of which %d were left,", c.left), r)
		}
		c.left = r.n
		return nil
	})
}

// countStock checks that each sale took one piece.
func countStock(c *conn, _ *plan, sold int) error {
	left, err := c.ask("GET", stockKey)
	if err != nil {
		return err
	}
	if want := strconv.Itoa(stockPieces - sold); left[0] != want {
		return fmt.Errorf("%s has %s pieces left after %d were sold, and not %s", c.addr, left[0], sold, want)
	}
	_, err = c.ask("DEL", stockKey)
	return err
}

// redisPublish publishes, and waits until the messages have been received.
func redisPublish(c *redisClient) error {
	first := c.sent
	c.sent += c.pipeline
	for i := range c.pipeline {
		c.command("PUBLISH", 3)
		c.argKey(channelName, c.id)
		c.argKey("", first+i)
	}
	if err := c.send(); err != nil {
		return err
	}
	for range c.pipeline {
		if _, err := c.expect("PUBLISH", ':'); err != nil {
			return err
		}
	}
	for i := range c.pipeline {
		if err := c.receiveMessage(first + i); err != nil {
			return err
		}
	}
	return nil
}

// receiveMessage reads the message with that number, which must be the next one.
func (c *redisClient) receiveMessage(number int) error {
	s := c.subscriber
	r, err := s.expect("SUBSCRIBE", '*')
	if err == nil && r.n != 3 {
		err = s.wrong("SUBSCRIBE", r)
	}
	if err == nil {
		err = s.expectText("SUBSCRIBE", "message")
	}
	if err == nil {
		_, err = s.expect("SUBSCRIBE", '$')
	}
	if err == nil {
		r, err = s.expect("SUBSCRIBE", '$')
	}
	if err != nil {
		return err
	}
	if got, ok := parseInt(r.text); !ok || got != int64(number) {
		return s.wrong(fmt.Sprintf("SUBSCRIBE, instead of message %d,", number), r)
	}
	return nil
}

// The kinds of operations of mixed, and their shares in percent.
const (
	mixGetShare = 80
	mixSetShare = 15
)

// redisMixed does 80 % get, 15 % set, 5 % lock; locks are freed in a second exchange.
func redisMixed(c *redisClient) error {
	first, writes := c.turn, false
	for i := range c.picks {
		key := c.rng.IntN(c.keys)
		switch die := c.rng.IntN(100); {
		case die < mixGetShare:
			c.picks[i] = key
			c.appendGet(key)
			continue
		case die < mixGetShare+mixSetShare:
			c.picks[i] = pickSet
			c.appendSet(key)
		default:
			c.picks[i] = pickLock
			c.appendAcquire(c.lockOf(c.id, c.turn))
			c.turn++
		}
		writes = true
	}
	if err := c.exchange(writes); err != nil {
		return err
	}
	for _, pick := range c.picks {
		var err error
		if pick >= 0 {
			err = c.expectValue(pick)
		} else {
			err = c.expectOK("SET")
		}
		if err != nil {
			return err
		}
	}
	if err := c.waited(); err != nil || c.turn == first {
		return err
	}
	for turn := first; turn < c.turn; turn++ {
		c.appendRelease(c.lockOf(c.id, turn))
	}
	return c.settleInts("the release of its holder's lock", c.turn-first)
}

// Values of picks that are not keys to get.
const (
	pickSet  = -1
	pickLock = -2
)
