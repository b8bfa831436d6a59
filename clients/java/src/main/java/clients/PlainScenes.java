package clients;

import java.time.Duration;
import java.util.List;

/** The scenes of a client that is no lock library. */
final class PlainScenes {
    /** Bounds the time from the leader's death to a program's next success. */
    static final Duration OUTAGE_MAX = Duration.ofSeconds(3);

    /** Bounds a client's wait for an answer where leaders die: by default some wait a minute for a dead node. */
    private static final Duration SHORT = Duration.ofMillis(500);

    /** The bound where no leader dies, but the machine may be slow. */
    private static final Duration LONG = Duration.ofSeconds(10);

    private PlainScenes() {}

    /** The scenes of a client that knows one address. */
    static List<Scene> single(Plain.Open open) {
        return List.of(
                Scene.calm("commands", () -> commands(open)),
                Scene.none("failover", "a client of one address does not outlive that node"));
    }

    /** The scenes of a client that finds a new leader. */
    static List<Scene> finding(Plain.Open open) {
        return List.of(
                Scene.calm("commands", () -> commands(open)), Scene.failover(round -> outage(open, round)));
    }

    private static void commands(Plain.Open open) throws Exception {
        String key = "{" + LockScenes.fresh("commands") + "}";
        Duration lease = Duration.ofMinutes(1);
        try (Plain c = open.open(LONG)) {
            same("SET NX PX", true, c.setIfAbsent(key, "me", lease));
            same("SET NX PX, taken", false, c.setIfAbsent(key, "you", lease));
            same("release by another", 0L, c.release(key, "you"));
            same("release", 1L, c.release(key, "me"));
            same("GET of nothing", null, c.get(key));
            same("pipeline", 3L, c.pipeline(key));
            same("transaction", 4L, c.transaction(key));
            same("error", "WRONGTYPE Operation against a key holding the wrong kind of value", c.error(key));
            same("Pub/Sub", "hello", c.echo(key, "hello"));
        }
    }

    static void same(String what, Object want, Object got) {
        if (want == null ? got != null : !want.equals(got)) {
            throw new Violation(what + ": " + got + ", not " + want);
        }
    }

    /** The leader dies while a program writes, which retries failed writes. */
    private static String outage(Plain.Open open, Round round) throws Exception {
        Env.needsFailover();
        String key = "{" + LockScenes.fresh("outage") + "}";
        int failures = 0;
        Duration longest = Duration.ZERO;
        try (Plain c = open.open(SHORT)) {
            c.set(key, "0");
            round.ready();
            long last = System.nanoTime();
            while (!round.over()) {
                try {
                    c.set(key, "1");
                    Duration gap = LockScenes.since(last);
                    longest = gap.compareTo(longest) > 0 ? gap : longest;
                    last = System.nanoTime();
                } catch (Exception e) {
                    failures++;
                }
                Thread.sleep(5);
            }
            longest = LockScenes.since(last).compareTo(longest) > 0 ? LockScenes.since(last) : longest;
        }
        round.check();
        if (longest.compareTo(OUTAGE_MAX) > 0) {
            throw new Violation("no write succeeded for " + longest + ", " + failures + " failed");
        }
        return String.format("%d failed calls, no write for %d ms", failures, longest.toMillis());
    }
}
