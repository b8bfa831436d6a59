package clients;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.stream.Collectors;

/** The time that a program waits when the node of its client dies. The leader is killed again and again. */
final class Resume {
    /** Deaths of the leader. */
    private static final int ROUNDS = 5;

    /** Without a write, with the settings of docs/clients.md. */
    private static final Duration MAX = Duration.ofSeconds(1);

    /** For programs to write before the leader dies. */
    private static final Duration BEFORE = Duration.ofSeconds(2);

    /** From its death until a write says that all is well. */
    private static final Duration SETTLE = Duration.ofSeconds(3);

    /** From its death until a program is given up. */
    private static final Duration WAIT = Duration.ofSeconds(10);

    /** Between two writes. */
    private static final long PAUSE_MS = 5;

    private Resume() {}

    /** A client that writes. */
    interface Client extends AutoCloseable {
        void set(String key) throws Exception;

        @Override
        void close();
    }

    /** A client with the operations of a program that locks by hand. */
    static Client of(Plain plain) {
        return new Client() {
            @Override
            public void set(String key) {
                plain.set(key, "x");
            }

            @Override
            public void close() {
                plain.close();
            }
        };
    }

    /**
     * The scene of a client that needs settings.
     *
     * @param kill the way in which the node of the client dies
     * @param tuned a client with the settings of docs/clients.md
     * @param usual one with the library's defaults
     */
    static Scene of(String kill, Callable<Client> tuned, Callable<Client> usual) {
        return Scene.alone("resume", () -> {
            List<List<Long>> outages = outages(kill, List.of(tuned, usual));
            return judged(outages.get(0), "no write for " + ms(outages.get(0)) + "; by default no write for " + ms(outages.get(1)));
        });
    }

    /** The scene of a client that needs no settings. */
    static Scene of(String kill, Callable<Client> usual) {
        return Scene.alone("resume", () -> {
            List<Long> outages = outages(kill, List.of(usual)).get(0);
            return judged(outages, "by default no write for " + ms(outages));
        });
    }

    private static String judged(List<Long> outages, String words) {
        if (Collections.max(outages) > MAX.toMillis()) {
            throw new Violation(words);
        }
        return words;
    }

    private static String ms(List<Long> all) {
        return all.stream().map(Object::toString).collect(Collectors.joining(" ")) + " ms";
    }

    /** For each program the ms without a write, for each death. */
    private static List<List<Long>> outages(String kill, List<Callable<Client>> programs) throws Exception {
        Env.needsFailover();
        List<List<Long>> all = programs.stream().<List<Long>>map(p -> new ArrayList<>()).toList();
        for (int round = 0; round < ROUNDS; round++) {
            List<Writer> writers = new ArrayList<>();
            for (Callable<Client> program : programs) {
                writers.add(new Writer(program.call()));
            }
            Thread.sleep(BEFORE.toMillis());
            Env.tell(kill);
            writers.forEach(w -> w.struck = System.nanoTime());
            for (int i = 0; i < writers.size(); i++) {
                all.get(i).add(writers.get(i).outage().toMillis());
            }
            Env.tell("/heal");
        }
        return all;
    }

    /** A program that writes, and retries failed writes. */
    private static final class Writer {
        private final Client client;
        private final String key = LockScenes.fresh("resume");
        private final Future<Void> writing;
        private volatile long struck;
        private volatile long last = System.nanoTime();
        private volatile Duration longest = Duration.ZERO;
        private volatile boolean closed;

        Writer(Client client) {
            this.client = client;
            writing = Workers.start(() -> {
                write();
                return null;
            });
        }

        private boolean sinceStruck(Duration time) {
            return struck != 0 && LockScenes.since(struck).compareTo(time) > 0;
        }

        private void write() throws Exception {
            boolean well = false;
            while (!well && !closed) {
                boolean enough = sinceStruck(SETTLE);
                try {
                    client.set(key);
                    note();
                    well = enough;
                } catch (Exception e) {
                    // what the client's own retries leave
                }
                Thread.sleep(PAUSE_MS);
            }
        }

        private synchronized void note() {
            Duration gap = LockScenes.since(last);
            longest = gap.compareTo(longest) > 0 ? gap : longest;
            last = System.nanoTime();
        }

        /** The longest time without a write. A client may not answer a command for a minute. */
        Duration outage() throws Exception {
            while (!writing.isDone() && !sinceStruck(WAIT)) {
                Thread.sleep(PAUSE_MS);
            }
            if (!writing.isDone()) {
                note();
            }
            closed = true;
            Workers.start(() -> { // Lettuce waits for what it sent to the dead node
                client.close();
                return null;
            });
            return longest;
        }
    }
}
