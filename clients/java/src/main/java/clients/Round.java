package clients;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** A time in which the leaders of all clusters are killed. The scenes that play in it share these kills. */
final class Round {
    private static final long READY_MAX_MS = 30_000;
    private static final long BEFORE_MS = 1_500;
    private static final long KILLING_MS = 600;
    private static final long WITHOUT_MS = 7_000;
    private static final long HEALED_MS = 3_000;

    private final CountDownLatch ready;
    private volatile boolean killing;
    private volatile boolean killed;
    private volatile boolean over;
    private volatile long overAt;
    private volatile Exception broken;

    Round(int scenes) {
        ready = new CountDownLatch(scenes);
    }

    /** A scene reports that its clients are open. The kills wait for all scenes. */
    void ready() {
        ready.countDown();
    }

    /** Whether the leaders die now: a holder should keep its lock for a while. */
    boolean killing() {
        return killing;
    }

    boolean killed() {
        return killed;
    }

    boolean over() {
        return over;
    }

    Duration sinceOver() {
        return Duration.ofNanos(System.nanoTime() - overAt);
    }

    /** Fails if no leader was killed, or not all nodes came back. */
    void check() throws Exception {
        if (broken != null) {
            throw broken;
        }
    }

    /** Kills the leaders, and much later starts them again. */
    void play() {
        try {
            kill();
        } catch (Exception e) {
            broken = e;
        } finally {
            overAt = System.nanoTime();
            over = true;
        }
    }

    private void kill() throws Exception {
        ready.await(READY_MAX_MS, TimeUnit.MILLISECONDS);
        Thread.sleep(BEFORE_MS);
        killing = true;
        Thread.sleep(KILLING_MS / 2);
        try {
            Env.tell("/kill-leader");
            Env.tell("/kill-cluster-leader");
            Thread.sleep(KILLING_MS / 2);
            killing = false;
            killed = true;
            Thread.sleep(WITHOUT_MS);
        } finally {
            killing = false;
            Env.tell("/heal"); // also for the rounds to come
        }
        Thread.sleep(HEALED_MS);
    }
}
