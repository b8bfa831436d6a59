package clients;

import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;

/** ShedLock, which never waits: whoever wants to, asks again. */
final class ShedLock implements Program {
    private final LockProvider provider;
    private final Runnable end;
    private final Duration lease;

    ShedLock(SpringTemplate.Connections connections, Duration lease) {
        provider = new RedisLockProvider(connections.factory());
        end = connections.end();
        this.lease = lease;
    }

    @Override
    public Locker lock(String name) {
        return new Locker() {
            private Optional<SimpleLock> held = Optional.empty();

            @Override
            public void lock() throws InterruptedException {
                do {
                    held = provider.lock(new LockConfiguration(Instant.now(), name, lease, Duration.ZERO));
                    if (held.isEmpty()) {
                        Thread.sleep(SpringTemplate.POLL.toMillis());
                    }
                } while (held.isEmpty());
            }

            @Override
            public void unlock() {
                held.orElseThrow().unlock();
            }
        };
    }

    @Override
    public void close() {
        end.run();
    }
}
