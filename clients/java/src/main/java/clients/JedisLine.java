package clients;

import static clients.PlainScenes.same;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.stream.Stream;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.util.SafeEncoder;

/** The native locks of lockd, by Jedis's calls for any command. */
final class JedisLine {
    private static final String LEASE_MS = "20000";

    /** WAIT of clients that are expected to get the lock. */
    private static final Duration WAIT = Duration.ofSeconds(30);

    /** WAIT of the others: longer than Jedis waits for an answer by default, which is 2 s. */
    private static final Duration WAIT_IN_VAIN = Duration.ofMillis(2500);

    /** The read timeout: longer than WAIT, except with sendBlockingCommand. */
    private static final Duration TIMEOUT = WAIT.plusSeconds(10);

    /** A program that polls by LOCK without WAIT would have to ask more often. */
    private static final Duration WAKE_MAX = Duration.ofSeconds(1);

    private static final int NODES = 3;

    private final List<UnifiedJedis> nodes;

    private JedisLine(List<UnifiedJedis> nodes) {
        this.nodes = nodes;
    }

    /** Makes a client of node number i with a bound of its wait for an answer. */
    interface Open {
        UnifiedJedis open(int i, Duration timeout);
    }

    private enum Command implements ProtocolCommand {
        LOCK, RENEW, UNLOCK;

        @Override
        public byte[] getRaw() {
            return SafeEncoder.encode(name());
        }
    }

    /** The answer of LOCK, and its time. */
    private record Granted(Object fence, long at) {}

    static Scene of(Open open) {
        return Scene.calm("line", () -> {
            if (!Env.LOCKD) {
                throw new NoScene(Env.TARGET + " has no LOCK here");
            }
            List<UnifiedJedis> nodes = new ArrayList<>();
            try {
                for (int i = 0; i < NODES; i++) {
                    nodes.add(open.open(i, TIMEOUT));
                }
                new JedisLine(nodes).play(open);
            } finally {
                nodes.forEach(UnifiedJedis::close);
            }
        });
    }

    private void play(Open open) throws Exception {
        inTurn();
        notInTurn();
        readers();
        permits();
        error();
        try (UnifiedJedis usual = open.open(1, Duration.ofSeconds(2))) {
            blocking(usual);
        }
    }

    /** Sends a command. In a cluster the key selects the node. */
    private Object send(int node, Command command, String key, String... more) {
        return nodes.get(node).sendCommand(key, command, with(key, more));
    }

    private static String[] with(String key, String... more) {
        return Stream.concat(Stream.of(key), Stream.of(more)).toArray(String[]::new);
    }

    private Object lock(int node, String key, String token, String... more) {
        return send(node, Command.LOCK, key, lease(token, more));
    }

    private static String[] lease(String token, String... more) {
        return Stream.concat(Stream.of(token, "PX", LEASE_MS), Stream.of(more)).toArray(String[]::new);
    }

    private Object unlock(int node, String key, String token) {
        return send(node, Command.UNLOCK, key, token);
    }

    /** Waits in line in a thread of its own. */
    private Future<Granted> waiting(int node, String key, String token, String... more) {
        String[] all = Stream.concat(Stream.of("WAIT", ms(WAIT)), Stream.of(more)).toArray(String[]::new);
        return Workers.start(() -> new Granted(lock(node, key, token, all), System.nanoTime()));
    }

    private static String ms(Duration d) {
        return Long.toString(d.toMillis());
    }

    /**
     * Waits on two connections with one token. The later one takes over the place in line, and the other is told so.
     * After that the token is certainly in line. The answer of the remaining one goes into the queue.
     */
    private BlockingQueue<Object> waitingTwice(int[] at, String key, String token) throws Exception {
        BlockingQueue<Object> ends = new LinkedBlockingQueue<>();
        for (int node : at) {
            Workers.start(() -> {
                try {
                    return ends.add(Workers.result(waiting(node, key, token)));
                } catch (Exception e) {
                    return ends.add(e);
                }
            });
        }
        Object told = ends.take();
        if (!(told instanceof JedisDataException e && e.getMessage().startsWith("ERR another connection waits"))) {
            throw new Violation("the connection before: " + told);
        }
        return ends;
    }

    /** Fails unless the fence is higher than an earlier one. */
    private static long above(String what, long before, Object got) {
        if (!(got instanceof Long fence && fence > before)) {
            throw new Violation(what + ": " + got + " after the fence " + before);
        }
        return fence;
    }

    /** Two waiters behind the holder, at other nodes, get the lock in their order. */
    private void inTurn() throws Exception {
        String key = LockScenes.fresh("line");
        long first = above("the first", 0, lock(0, key, "a", "OWNER", "first", "NOTE", "is the first"));
        BlockingQueue<Object> secondWaiting = waitingTwice(new int[] {1, 2}, key, "b");
        BlockingQueue<Object> thirdWaiting = waitingTwice(new int[] {2, 0}, key, "c");
        long second = handOver(0, key, "a", first, secondWaiting);
        same("the third, while the second has the lock", null, thirdWaiting.peek());
        handOver(1, key, "b", second, thirdWaiting);
        same("UNLOCK by the third", 1L, unlock(2, key, "c"));
    }

    /** Releases a lock that has a fence, and returns the fence of the next holder, who gets it at once. */
    private long handOver(int node, String key, String token, long fence, BlockingQueue<Object> waiting)
            throws InterruptedException {
        same("UNLOCK", 1L, unlock(node, key, token));
        long released = System.nanoTime();
        Object end = waiting.take();
        if (!(end instanceof Granted next)) {
            throw new Violation("after " + token + ": " + end);
        }
        if (next.at() - released > WAKE_MAX.toNanos()) {
            throw new Violation("the next one came " + Duration.ofNanos(next.at() - released) + " after " + token);
        }
        return above("after " + token, fence, next.fence());
    }

    /** The answers to a holder that asks again, and to clients that do not get the lock. */
    private void notInTurn() {
        String key = LockScenes.fresh("line");
        Object fence = lock(0, key, "a");
        same("LOCK by its holder", fence, lock(1, key, "a"));
        same("RENEW", fence, send(0, Command.RENEW, key, lease("a")));
        same("RENEW by another", null, send(1, Command.RENEW, key, lease("b")));
        same("UNLOCK by another", 0L, unlock(1, key, "b"));
        same("LOCK, taken", null, lock(1, key, "b"));
        long asked = System.nanoTime();
        same("WAIT that ends", null, lock(1, key, "b", "WAIT", ms(WAIT_IN_VAIN)));
        Duration took = LockScenes.since(asked);
        if (took.compareTo(WAIT_IN_VAIN) < 0) {
            throw new Violation("a wait of " + WAIT_IN_VAIN + " ended after " + took);
        }
        same("UNLOCK", 1L, unlock(0, key, "a"));
    }

    /** Two clients hold a lock SHARED at once, and no writer gets it. */
    private void readers() {
        String key = LockScenes.fresh("line");
        long first = above("the first", 0, lock(0, key, "a", "SHARED"));
        above("the second", first, lock(1, key, "b", "SHARED"));
        same("LOCK by a writer", null, lock(2, key, "c"));
        same("UNLOCK", 1L, unlock(0, key, "a"));
        same("UNLOCK by the second", 1L, unlock(1, key, "b"));
    }

    /** The third client of a semaphore of two waits until one of the others leaves. */
    private void permits() throws Exception {
        String key = LockScenes.fresh("line");
        long first = above("the first", 0, lock(0, key, "a", "LIMIT", "2"));
        long second = above("the second", first, lock(1, key, "b", "LIMIT", "2"));
        same("LOCK by the third", null, lock(2, key, "c", "LIMIT", "2"));
        Future<Granted> waiting = waiting(2, key, "c", "LIMIT", "2");
        same("UNLOCK", 1L, unlock(0, key, "a"));
        above("the third", second, Workers.result(waiting).fence());
    }

    /** The client throws an error of the server as its own exception. */
    private void error() {
        String key = LockScenes.fresh("line");
        nodes.get(0).rpush(key, "x");
        try {
            throw new Violation("LOCK of a list: " + lock(1, key, "a", "WAIT", ms(WAIT)));
        } catch (JedisDataException e) {
            same("LOCK of a list", "WRONGTYPE Operation against a key holding the wrong kind of value", e.getMessage());
        }
    }

    /** A client whose timeout is shorter than WAIT: sendBlockingCommand waits without it. */
    private void blocking(UnifiedJedis usual) {
        String key = LockScenes.fresh("line");
        above("the first", 0, lock(0, key, "a"));
        String[] args = with(key, lease("b", "WAIT", ms(WAIT_IN_VAIN)));
        same("WAIT by sendBlockingCommand", null, usual.sendBlockingCommand(key, Command.LOCK, args));
        same("UNLOCK", 1L, unlock(0, key, "a"));
    }
}
