package clients;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** The locks of Redisson that implement RLock. */
final class RedissonLock implements Program {
    /** The default is 5 minutes. When a node dies, each waiter there may delay the others by this time. */
    private static final Duration FAIR_WAIT = Duration.ofMillis(300);

    /** The newest token of each fenced lock. */
    private static final Map<String, Long> TOKENS = new ConcurrentHashMap<>();

    private final RedissonClient client;
    private final Kind kind;
    private final Duration lease;

    private RedissonLock(RedissonClient client, Kind kind, Duration lease) {
        this.client = client;
        this.kind = kind;
        this.lease = lease;
    }

    /** A kind of lock, and the call that takes it. */
    record Kind(Get get, Take take) {}

    /** Finds the lock of a name. */
    interface Get {
        RLock lock(RedissonClient client, String name);
    }

    /** Waits for the lock. */
    interface Take {
        void lock(RLock lock, Duration lease) throws Exception;
    }

    static final Kind WATCHDOG = new Kind(RedissonClient::getLock, (lock, lease) -> lock.lock());
    static final Kind TRY = new Kind(RedissonClient::getLock, RedissonLock::tryLock);
    static final Kind FAIR = new Kind(RedissonClient::getFairLock, RedissonLock::withLease);
    static final Kind WRITE = new Kind((c, name) -> c.getReadWriteLock(name).writeLock(), RedissonLock::withLease);
    static final Kind SPIN = new Kind(RedissonClient::getSpinLock, RedissonLock::withLease);
    static final Kind FENCED = new Kind(RedissonClient::getFencedLock, RedissonLock::fenced);
    static final Kind MULTI = new Kind(RedissonLock::multi, RedissonLock::withLease);

    static List<Scene> scenes(RedissonMode mode, Kind kind) {
        return LockScenes.of((i, lease) -> new RedissonLock(mode.open(i, lease, FAIR_WAIT), kind, lease));
    }

    private static void withLease(RLock lock, Duration lease) throws Exception {
        lock.lock(lease.toMillis(), TimeUnit.MILLISECONDS);
    }

    private static void tryLock(RLock lock, Duration lease) throws Exception {
        boolean held = false;
        while (!held) {
            held = lock.tryLock(5, lease.toSeconds(), TimeUnit.SECONDS);
        }
    }

    /** The token of each holder must be greater than that of the one before. */
    private static void fenced(RLock lock, Duration lease) {
        long token = ((RFencedLock) lock).lockAndGetToken(lease.toMillis(), TimeUnit.MILLISECONDS);
        Long before = TOKENS.put(lock.getName(), token);
        if (before != null && before >= token) {
            throw new Violation("token " + token + " after " + before);
        }
    }

    private static RLock multi(RedissonClient client, String name) {
        return client.getMultiLock(client.getLock(name + ":1"), client.getLock(name + ":2"), client.getLock(name + ":3"));
    }

    @Override
    public Locker lock(String name) {
        RLock lock = kind.get().lock(client, name);
        return new Locker() {
            @Override
            public void lock() throws Exception {
                kind.take().lock(lock, lease);
            }

            @Override
            public void unlock() {
                lock.unlock();
            }
        };
    }

    @Override
    public void close() {
        client.shutdown(0, 2, TimeUnit.SECONDS);
    }
}
