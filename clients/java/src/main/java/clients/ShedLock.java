package clients;

import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;

/** ShedLock, which never waits: the program retries. */
final class ShedLock implements Program {
    private final LockProvider provider;
    private final Runnable end;
    private final Duration lease;

    ShedLock(SpringTemplate.Connections connections, Duration lease) {
        // By default it frees a lock with a plain DEL, whatever token it has. Lettuce resends a command whose
        // answer was lost with its connection: the DEL may then come twice, and free the next holder's lock.
        provider = new RedisLockProvider.Builder(connections.factory()).safeUpdate(true).build();
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
