package clients;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;

/** The purpose of each object of Redisson, besides the scenes of all locks. */
final class RedissonPurpose {
    private static final Duration WATCHDOG = Duration.ofSeconds(3);
    private static final Duration FAIR_WAIT = Duration.ofSeconds(30);
    private static final Duration QUEUE_MAX = Duration.ofSeconds(20);
    private static final Duration LEASE = Duration.ofMillis(1500);

    /** Redisson computes these times in whole milliseconds of the wall clock. */
    private static final Duration ROUGHLY = Duration.ofMillis(10);

    private RedissonPurpose() {}

    /** A test with three clients. */
    interface Show {
        void play(String name, RedissonClient a, RedissonClient b, RedissonClient c) throws Exception;
    }

    static Scene of(RedissonMode mode, Show show) {
        return Scene.calm("purpose", () -> {
            List<RedissonClient> all = new ArrayList<>();
            try {
                for (int i = 0; i < LockScenes.PROGRAMS; i++) {
                    all.add(mode.open(i, WATCHDOG, FAIR_WAIT));
                }
                show.play(LockScenes.fresh("purpose"), all.get(0), all.get(1), all.get(2));
            } finally {
                all.forEach(c -> c.shutdown(0, 2, TimeUnit.SECONDS));
            }
        });
    }

    private static void same(String what, Object want, Object got) {
        PlainScenes.same(what, want, got);
    }

    /** Fails unless something happened when it was due, or soon after. */
    private static void about(String what, Duration due, Duration waited) {
        if (waited.compareTo(due.minus(ROUGHLY)) < 0 || waited.compareTo(due.plus(LockScenes.NOTICE_MAX)) > 0) {
            throw new Violation(what + " was due after " + due + ", and came after " + waited);
        }
    }

    /** Runs a call in a thread of its own, and makes sure that it waits. */
    private static <T> Future<T> waiting(String what, Callable<T> call) throws Exception {
        Future<T> future = Workers.start(call);
        try {
            future.get(500, TimeUnit.MILLISECONDS);
            throw new Violation(what + " did not wait");
        } catch (TimeoutException e) {
            return future;
        } catch (ExecutionException e) {
            Workers.result(future);
            return future;
        }
    }

    /** The result of a call that was waiting for an event that has just happened. */
    private static <T> T soon(String what, Future<T> future) throws Exception {
        try {
            return future.get(LockScenes.NOTICE_MAX.toMillis(), TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            throw new Violation(what + " was not woken");
        }
    }

    private static boolean tryElsewhere(RLock lock) throws Exception {
        return Workers.result(Workers.start(() -> {
            boolean got = lock.tryLock();
            if (got) {
                lock.unlock();
            }
            return got;
        }));
    }

    /** RLock: its watchdog keeps it while the client lives. */
    static void watchdog(String name, RedissonClient a, RedissonClient b, RedissonClient c) throws Exception {
        RLock lock = a.getLock(name);
        lock.lock();
        lock.lock();
        same("hold count", 2, lock.getHoldCount());
        lock.unlock();
        long begin = System.nanoTime();
        while (LockScenes.since(begin).compareTo(WATCHDOG.multipliedBy(2)) < 0) {
            same("tryLock of a lock with a watchdog", false, b.getLock(name).tryLock());
            Thread.sleep(50);
        }
        lock.unlock();
        same("locked after the release", false, c.getLock(name).isLocked());
        if (Env.LOCKD) {
            endedByOthers(a.getLock(name + ":ended"), b.getLock(name + ":ended"), c);
            endedByOthers(a.getFairLock(name + ":fair"), b.getFairLock(name + ":fair"), c);
        }
    }

    /** The end of a lock other than by its holder wakes a waiter, which would otherwise sleep for a minute. */
    private static void endedByOthers(RLock held, RLock awaited, RedissonClient other) throws Exception {
        for (boolean deleted : List.of(true, false)) {
            Workers.result(Workers.start(() -> {
                held.lock(60, TimeUnit.SECONDS);
                return null;
            }));
            Future<Void> waiting = waiting("the waiter", () -> {
                awaited.lock(20, TimeUnit.SECONDS);
                awaited.unlock();
                return null;
            });
            if (deleted) {
                other.getKeys().delete(held.getName());
            } else {
                other.getKeys().expire(held.getName(), 500, TimeUnit.MILLISECONDS);
            }
            soon("who waits for a lock that others have ended", waiting);
        }
    }

    /** tryLock: it waits for the given time. */
    static void tryLock(String name, RedissonClient a, RedissonClient b, RedissonClient c) throws Exception {
        RLock lock = a.getLock(name);
        lock.lock();
        long begin = System.nanoTime();
        same("tryLock of a held lock", false, b.getLock(name).tryLock(700, 20_000, TimeUnit.MILLISECONDS));
        Duration waited = LockScenes.since(begin);
        about("tryLock", Duration.ofMillis(700), waited);
        Future<Boolean> waiting = waiting("tryLock", () -> c.getLock(name).tryLock(20, 20, TimeUnit.SECONDS));
        lock.unlock();
        same("tryLock of a lock that is released", true, soon("tryLock", waiting));
        same("remaining time below the lease", true, lock.remainTimeToLive() <= 20_000);
    }

    /** RFairLock: first come, first served. */
    static void order(String name, RedissonClient a, RedissonClient b, RedissonClient c) throws Exception {
        RLock lock = a.getFairLock(name);
        lock.lock();
        List<Integer> came = Collections.synchronizedList(new ArrayList<>());
        List<Future<Void>> all = new ArrayList<>();
        for (RedissonClient client : List.of(c, b, a, b, c)) {
            int number = all.size();
            all.add(waiting("waiter " + number, () -> {
                RLock own = client.getFairLock(name);
                own.lock(20, TimeUnit.SECONDS);
                came.add(number);
                own.unlock();
                return null;
            }));
            mustQueue(a, name, all.size());
        }
        lock.unlock();
        for (Future<Void> one : all) {
            soon("a waiter", one);
        }
        same("order", List.of(0, 1, 2, 3, 4), came);
    }

    /** Waits until a number of clients is in the queue of a fair lock, so that the next one comes after them. */
    private static void mustQueue(RedissonClient client, String name, int waiters) throws Exception {
        long begin = System.nanoTime();
        while (client.getDeque("redisson_lock_queue:{" + name + "}").size() < waiters) {
            if (LockScenes.since(begin).compareTo(QUEUE_MAX) > 0) {
                throw new Violation("waiter " + waiters + " is not in the queue");
            }
            Thread.sleep(10);
        }
    }

    /** RReadWriteLock: readers share it, and their watchdogs keep it; the writer waits for all of them. */
    static void readers(String name, RedissonClient a, RedissonClient b, RedissonClient c) throws Exception {
        RReadWriteLock first = a.getReadWriteLock(name);
        RReadWriteLock second = b.getReadWriteLock(name);
        first.readLock().lock();
        second.readLock().lock();
        RLock write = c.getReadWriteLock(name).writeLock();
        Future<Void> writer = waiting("the writer", () -> {
            write.lock(20, TimeUnit.SECONDS);
            write.unlock();
            return null;
        });
        first.readLock().unlock();
        Thread.sleep(WATCHDOG.multipliedBy(2).toMillis());
        same("the writer came while one reads", false, writer.isDone());
        second.readLock().unlock();
        soon("the writer", writer);
    }

    /** RSpinLock: it works without Pub/Sub, and its channel has no subscribers. */
    static void spin(String name, RedissonClient a, RedissonClient b, RedissonClient c) throws Exception {
        RLock lock = a.getSpinLock(name);
        lock.lock();
        same("tryLock of a held lock", false, b.getSpinLock(name).tryLock());
        Future<Void> waiting = waiting("the waiter", () -> {
            RLock own = c.getSpinLock(name);
            own.lock();
            own.unlock();
            return null;
        });
        lock.unlock();
        soon("the waiter", waiting);
    }

    /** RFencedLock: a greater token for each holder. */
    static void tokens(String name, RedissonClient a, RedissonClient b, RedissonClient c) {
        long last = -1;
        for (RedissonClient client : List.of(a, b, c, b, a)) {
            RFencedLock lock = client.getFencedLock(name);
            long token = lock.lockAndGetToken();
            same("the token grows", true, token > last);
            same("token of the lock", token, lock.getToken());
            last = token;
            lock.unlock();
        }
    }

    /** RMultiLock: all or none. */
    static void multi(String name, RedissonClient a, RedissonClient b, RedissonClient c) throws Exception {
        RLock third = b.getLock(name + ":3");
        third.lock();
        RLock all = a.getMultiLock(a.getLock(name + ":1"), a.getLock(name + ":2"), a.getLock(name + ":3"));
        same("tryLock while one is held", false, all.tryLock(300, 20_000, TimeUnit.MILLISECONDS));
        same("the first after that", true, tryElsewhere(c.getLock(name + ":1")));
        third.unlock();
        same("tryLock of all", true, all.tryLock(5, 20, TimeUnit.SECONDS));
        for (int i = 1; i <= 3; i++) {
            same("tryLock of number " + i, false, c.getLock(name + ":" + i).tryLock());
        }
        all.unlock();
        same("the third after the release", true, tryElsewhere(c.getLock(name + ":3")));
    }

    /** RSemaphore: as many as there are permits, and a release wakes the next. */
    static void semaphore(String name, RedissonClient a, RedissonClient b, RedissonClient c) throws Exception {
        RSemaphore s = a.getSemaphore(name);
        same("set permits", true, s.trySetPermits(3));
        s.acquire();
        b.getSemaphore(name).acquire();
        same("third permit", true, c.getSemaphore(name).tryAcquire());
        same("fourth permit", false, c.getSemaphore(name).tryAcquire());
        Future<Void> waiting = waiting("the fourth", () -> {
            b.getSemaphore(name).acquire();
            return null;
        });
        s.release();
        soon("the fourth", waiting);
        same("permits left", 0, s.availablePermits());
    }

    /** RPermitExpirableSemaphore: permits with a name and a lease. */
    static void permits(String name, RedissonClient a, RedissonClient b, RedissonClient c) throws Exception {
        RPermitExpirableSemaphore s = a.getPermitExpirableSemaphore(name);
        same("set permits", true, s.trySetPermits(2));
        String kept = b.getPermitExpirableSemaphore(name).acquire(20, TimeUnit.SECONDS);
        long begin = System.nanoTime();
        String lost = s.acquire(LEASE.toMillis(), TimeUnit.MILLISECONDS);
        same("third permit", null, c.getPermitExpirableSemaphore(name).tryAcquire());
        c.getPermitExpirableSemaphore(name).acquire(20, TimeUnit.SECONDS);
        Duration waited = LockScenes.since(begin);
        about("the lost permit", LEASE, waited);
        same("release of a lost permit", false, s.tryRelease(lost));
        same("release", true, s.tryRelease(kept));
        same("second release", false, s.tryRelease(kept));
        same("permits left", 1, s.availablePermits());
    }

    /** RCountDownLatch: all wait until the last has counted. */
    static void latch(String name, RedissonClient a, RedissonClient b, RedissonClient c) throws Exception {
        RCountDownLatch latch = a.getCountDownLatch(name);
        same("set count", true, latch.trySetCount(2));
        List<Future<Void>> all = new ArrayList<>();
        for (RedissonClient client : List.of(b, c)) {
            all.add(waiting("await", () -> {
                client.getCountDownLatch(name).await();
                return null;
            }));
        }
        latch.countDown();
        Thread.sleep(300);
        same("done before the last", false, all.get(0).isDone() || all.get(1).isDone());
        b.getCountDownLatch(name).countDown();
        for (Future<Void> one : all) {
            soon("await", one);
        }
    }

    /** RRateLimiter: a number of calls of all clients in a time. */
    static void rate(String name, RedissonClient a, RedissonClient b, RedissonClient c) {
        RRateLimiter limiter = a.getRateLimiter(name);
        Duration interval = Duration.ofSeconds(3);
        same("set rate", true, limiter.trySetRate(RateType.OVERALL, 5, interval));
        long begin = System.nanoTime();
        int got = 0;
        for (RedissonClient client : List.of(a, b, c, a, b, c, a, b, c)) {
            got += client.getRateLimiter(name).tryAcquire() ? 1 : 0;
        }
        same("permits", 5, got);
        limiter.acquire();
        Duration waited = LockScenes.since(begin);
        about("the sixth permit", interval, waited);
    }
}
