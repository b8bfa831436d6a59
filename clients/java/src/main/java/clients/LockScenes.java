package clients;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/** The four scenes of a lock library. */
final class LockScenes {
    static final int WORKERS = 20;
    static final int PROGRAMS = 3;
    static final int TURNS = 5;
    static final Duration LEASE = Duration.ofSeconds(2);
    static final Duration LONG_LEASE = Duration.ofSeconds(20);
    static final Duration FAILOVER_LEASE = Duration.ofSeconds(4);

    /** Much less than the lease: a thread that the machine stops for a while must not become a second holder. */
    static final Duration TURN_MAX = Duration.ofSeconds(1);

    /** Bounds the time until a waiter notices a release or the end of a lease. Otherwise it waits for long. */
    static final Duration NOTICE_MAX = Duration.ofSeconds(3);

    /**
     * From the end of the round, when all nodes are back, until every worker has had its last turn. Redisson dials a
     * node that was down up to 8 s after it is back, and a fair lock waits for clients whose wake-ups went there.
     */
    static final Duration LAST_TURNS_MAX = Duration.ofSeconds(30);

    private static final AtomicInteger NAMES = new AtomicInteger();

    private final Program.Start start;

    private LockScenes(Program.Start start) {
        this.start = start;
    }

    static List<Scene> of(Program.Start start) {
        LockScenes s = new LockScenes(start);
        return List.of(
                Scene.calm("exclusion", s::exclusion),
                Scene.calm("expiry", s::expiry),
                Scene.calm("wake", s::wake),
                Scene.failover(s::failover));
    }

    /** An unused name. */
    static String fresh(String what) {
        return "java:" + what + ":" + System.nanoTime() + ":" + NAMES.incrementAndGet();
    }

    static Duration since(long nanos) {
        return Duration.ofNanos(System.nanoTime() - nanos);
    }

    /** Detects two holders at once, and measures the time without a holder. */
    static final class Inside {
        private int count;
        private int entered;
        private long last = System.nanoTime();
        private Duration longest = Duration.ZERO;

        synchronized void enter() {
            entered++;
            Duration alone = since(last);
            longest = alone.compareTo(longest) > 0 ? alone : longest;
            if (++count != 1) {
                throw new Violation("two held the lock at once");
            }
        }

        synchronized void leave() {
            count--;
            last = System.nanoTime();
        }

        synchronized int entered() {
            return entered;
        }

        synchronized Duration longest() {
            return longest;
        }
    }

    /** The programs of a scene, one for each node. */
    private List<Program> programs(Duration lease) throws Exception {
        List<Program> programs = new ArrayList<>();
        for (int i = 0; i < PROGRAMS; i++) {
            programs.add(start.at(i, lease));
        }
        return programs;
    }

    private void exclusion() throws Exception {
        Inside inside = new Inside();
        String name = fresh("exclusion");
        List<Program> programs = programs(LONG_LEASE);
        try {
            Workers.run(WORKERS, w -> {
                Program.Locker lock = programs.get(w % PROGRAMS).lock(name);
                for (int turn = 0; turn < TURNS; turn++) {
                    lock.lock();
                    inside.enter();
                    Thread.sleep(1);
                    inside.leave();
                    lock.unlock();
                }
            });
        } finally {
            programs.forEach(Program::close);
        }
        if (inside.entered() != WORKERS * TURNS) {
            throw new Violation(inside.entered() + " of " + WORKERS * TURNS + " turns");
        }
    }

    private void expiry() throws Exception {
        String name = fresh("expiry");
        Program first = start.at(0, LEASE);
        try (Program second = start.at(1, LEASE)) {
            long asked = System.nanoTime();
            first.lock(name).lock();
            long held = System.nanoTime();
            Future<Void> dying = Workers.start(() -> {
                first.close(); // some take seconds for it
                return null;
            });
            Program.Locker lock = second.lock(name);
            lock.lock();
            Duration sinceAsked = since(asked);
            Duration sinceHeld = since(held);
            if (sinceAsked.compareTo(LEASE) < 0) {
                throw new Violation("the lock was free " + sinceAsked + " after it was asked for " + LEASE);
            }
            if (sinceHeld.compareTo(LEASE.plus(NOTICE_MAX)) > 0) {
                throw new Violation("the lock was free only " + sinceHeld + " after it was taken for " + LEASE);
            }
            lock.unlock();
            Workers.result(dying);
        }
    }

    private void wake() throws Exception {
        String name = fresh("wake");
        try (Program holder = start.at(0, LONG_LEASE);
                Program waiter = start.at(1, LONG_LEASE)) {
            Program.Locker lock = holder.lock(name);
            lock.lock();
            AtomicLong came = new AtomicLong();
            Future<Void> waiting = Workers.start(() -> {
                Program.Locker waited = waiter.lock(name);
                waited.lock();
                came.set(System.nanoTime());
                waited.unlock();
                return null;
            });
            mustWait(waiting);
            lock.unlock();
            long released = System.nanoTime();
            Workers.result(waiting);
            Duration late = Duration.ofNanos(came.get() - released);
            if (late.compareTo(NOTICE_MAX) > 0) {
                throw new Violation("the waiter came " + late + " after the release");
            }
        }
    }

    private static void mustWait(Future<?> waiting) throws Exception {
        try {
            waiting.get(700, TimeUnit.MILLISECONDS);
            throw new Violation("the waiter did not wait");
        } catch (ExecutionException e) {
            Workers.result(waiting);
        } catch (TimeoutException e) {
            return; // it waits
        }
    }

    /**
     * The leader is killed while the lock is held and awaited. A worker retries after
     * an error of the library, as a program would, with the next of the three programs: a
     * program with a single address has lost its node.
     */
    private String failover(Round round) throws Exception {
        Env.needsFailover();
        Inside inside = new Inside();
        String name = fresh("failover");
        List<Program> programs = programs(FAILOVER_LEASE);
        AtomicInteger failures = new AtomicInteger();
        try {
            round.ready();
            Workers.run(WORKERS, w -> failures.addAndGet(insist(round, inside, programs, w, name)));
            round.check();
            Duration late = round.sinceOver();
            if (late.compareTo(LAST_TURNS_MAX) > 0) {
                throw new Violation("a worker had its last turn " + late + " after all nodes had come back");
            }
        } finally {
            programs.forEach(Program::close);
        }
        return String.format("%d turns, %d failed calls, nobody in it for %d ms, all done %d ms after the end",
                inside.entered(), failures.get(), inside.longest().toMillis(), round.sinceOver().toMillis());
    }

    /** Takes the lock repeatedly until the round is over, and returns the number of failures. */
    private int insist(Round round, Inside inside, List<Program> programs, int worker, String name) throws Exception {
        int failures = 0;
        boolean late = false; // had a turn after the kill
        while (!round.over() || !late) {
            Program.Locker lock = programs.get((worker + failures) % PROGRAMS).lock(name);
            boolean killed = round.killed();
            try {
                lock.lock();
                turn(round, inside);
                late = killed;
                lock.unlock();
            } catch (Violation e) {
                throw e;
            } catch (Exception e) {
                failures++;
                giveUp(lock);
            }
        }
        return failures;
    }

    /** A turn lasts through the kill, if possible, so that the lock is held when the leader dies. */
    private static void turn(Round round, Inside inside) throws InterruptedException {
        long entered = System.nanoTime();
        inside.enter();
        do {
            Thread.sleep(5);
        } while (round.killing() && since(entered).compareTo(TURN_MAX) < 0);
        inside.leave();
    }

    /** After an error it is unknown whether the lock is held. */
    private static void giveUp(Program.Locker lock) throws InterruptedException {
        try {
            lock.unlock();
        } catch (Exception e) {
            Thread.sleep(20); // a lease that nobody ends, ends by itself
        }
    }
}
