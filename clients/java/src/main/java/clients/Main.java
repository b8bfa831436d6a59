package clients;

import io.lettuce.core.RedisClient;
import io.lettuce.core.protocol.ProtocolVersion;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.IntFunction;
import java.util.logging.LogManager;
import java.util.stream.Stream;
import net.javacrumbs.shedlock.core.LockProvider;
import org.redisson.api.RedissonClient;
import org.springframework.data.redis.core.StringRedisTemplate;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.UnifiedJedis;

/** The Java suite: ../doc.go of the runner describes its environment and its output. */
public final class Main {
    /** The table of all libraries. */
    private static final List<Library> LIBRARIES = Stream.of(
                    jedis("single/2", PlainScenes.single(t -> JedisPlain.single(RedisProtocol.RESP2, t)),
                            (i, t) -> JedisPlain.ofNode(RedisProtocol.RESP2, i, t)),
                    jedis("single/3", PlainScenes.single(t -> JedisPlain.single(RedisProtocol.RESP3, t)),
                            (i, t) -> JedisPlain.ofNode(RedisProtocol.RESP3, i, t)),
                    jedis("sentinel", PlainScenes.finding(JedisPlain::sentinel), (i, t) -> JedisPlain.ofSentinels(t)),
                    jedis("cluster", PlainScenes.finding(JedisPlain::cluster), (i, t) -> JedisPlain.ofCluster(t)),
                    lettuce("single/2", PlainScenes.single(t -> LettucePlain.single(ProtocolVersion.RESP2, t))),
                    lettuce("single/3", PlainScenes.single(t -> LettucePlain.single(ProtocolVersion.RESP3, t))),
                    lettuce("sentinel", PlainScenes.finding(LettucePlain::sentinel)),
                    lettuce("cluster", PlainScenes.finding(LettucePlain::cluster)),
                    spring("Lettuce", "single", SpringTemplate::lettuceSingle),
                    spring("Lettuce", "sentinel", SpringTemplate::lettuceSentinel),
                    spring("Lettuce", "cluster", SpringTemplate::lettuceCluster),
                    spring("Jedis", "single", SpringTemplate::jedisSingle),
                    spring("Jedis", "sentinel", SpringTemplate::jedisSentinel),
                    spring("Jedis", "cluster", SpringTemplate::jedisCluster),
                    shedLock("Lettuce", SpringTemplate::lettuceSingle),
                    shedLock("Jedis", SpringTemplate::jedisSingle),
                    everyMode("RLock", RedissonLock.WATCHDOG, RedissonPurpose::watchdog),
                    Stream.of(lock("RLock", RedissonMode.TLS, RedissonLock.WATCHDOG, RedissonPurpose::watchdog)),
                    everyMode("RLock.tryLock", RedissonLock.TRY, RedissonPurpose::tryLock),
                    inSingle("RFairLock", RedissonLock.FAIR, RedissonPurpose::order),
                    inSingle("RReadWriteLock", RedissonLock.WRITE, RedissonPurpose::readers),
                    inSingle("RSpinLock", RedissonLock.SPIN, RedissonPurpose::spin),
                    inSingle("RFencedLock", RedissonLock.FENCED, RedissonPurpose::tokens),
                    inSingle("RMultiLock", RedissonLock.MULTI, RedissonPurpose::multi),
                    elsewhere("RFairLock", RedissonPurpose::order),
                    elsewhere("RReadWriteLock", RedissonPurpose::readers),
                    elsewhere("RSpinLock", RedissonPurpose::spin),
                    elsewhere("RFencedLock", RedissonPurpose::tokens),
                    elsewhere("RMultiLock", RedissonPurpose::multi),
                    resume("Jedis", UnifiedJedis.class, "sentinel", ResumeClients.jedisSentinel()),
                    resume("Jedis", UnifiedJedis.class, "cluster", ResumeClients.jedisCluster()),
                    resume("Lettuce", RedisClient.class, "sentinel", ResumeClients.lettuceSentinel()),
                    resume("Lettuce", RedisClient.class, "cluster", ResumeClients.lettuceCluster()),
                    resume("Redisson", RedissonClient.class, "sentinel", ResumeClients.redissonSentinel()),
                    resume("Redisson", RedissonClient.class, "cluster", ResumeClients.redissonCluster()),
                    everyMode("RSemaphore", RedissonPurpose::semaphore),
                    everyMode("RPermitExpirableSemaphore", RedissonPurpose::permits),
                    everyMode("RCountDownLatch", RedissonPurpose::latch),
                    everyMode("RRateLimiter", RedissonPurpose::rate))
            .flatMap(rows -> rows)
            .toList();

    /** Scenes that play at once. More would disturb each other and the servers on two cores. */
    private static final int AT_ONCE = 4;

    /** Scenes that share their kills. */
    private static final int IN_ROUND = 6;

    private static final Duration SCENE_MAX = Duration.ofSeconds(90);

    /** Bounds a scene that kills the leader again and again. */
    private static final Duration ALONE_MAX = Duration.ofMinutes(3);

    private Main() {}

    private static Stream<Library> jedis(String mode, List<Scene> scenes, JedisLine.Open open) {
        Stream<Scene> all = Stream.concat(scenes.stream(), Stream.of(JedisLine.of(open)));
        return Stream.of(new Library("Jedis", UnifiedJedis.class, mode, all.toList()));
    }

    private static Stream<Library> lettuce(String mode, List<Scene> scenes) {
        return Stream.of(new Library("Lettuce", RedisClient.class, mode, scenes));
    }

    private static Stream<Library> resume(String client, Class<?> type, String mode, Scene scene) {
        return Stream.of(new Library(client, type, mode, List.of(scene)));
    }

    private static Stream<Library> spring(String driver, String mode, IntFunction<SpringTemplate.Connections> connect) {
        return Stream.of(new Library("Spring/" + driver, StringRedisTemplate.class, mode,
                LockScenes.of((i, lease) -> new SpringTemplate(connect.apply(i), lease))));
    }

    private static Stream<Library> shedLock(String driver, IntFunction<SpringTemplate.Connections> connect) {
        return Stream.of(new Library("ShedLock/" + driver, LockProvider.class, "single",
                LockScenes.of((i, lease) -> new ShedLock(connect.apply(i), lease))));
    }

    private static Library redisson(String object, RedissonMode mode, List<Scene> scenes) {
        return new Library("Redisson/" + object, RedissonClient.class, mode.word, scenes);
    }

    private static Library lock(String object, RedissonMode mode, RedissonLock.Kind kind, RedissonPurpose.Show purpose) {
        Stream<Scene> four = RedissonLock.scenes(mode, kind).stream();
        return redisson(object, mode, Stream.concat(four, Stream.of(RedissonPurpose.of(mode, purpose))).toList());
    }

    private static Stream<Library> inSingle(String object, RedissonLock.Kind kind, RedissonPurpose.Show purpose) {
        return Stream.of(lock(object, RedissonMode.SINGLE, kind, purpose));
    }

    /** The modes without TLS, which RLock shows alone. */
    private static Stream<RedissonMode> plain() {
        return Arrays.stream(RedissonMode.values()).filter(mode -> mode != RedissonMode.TLS);
    }

    private static Stream<Library> everyMode(String object, RedissonLock.Kind kind, RedissonPurpose.Show purpose) {
        return plain().map(mode -> lock(object, mode, kind, purpose));
    }

    private static Stream<Library> everyMode(String object, RedissonPurpose.Show purpose) {
        return plain().map(mode -> redisson(object, mode, List.of(RedissonPurpose.of(mode, purpose))));
    }

    /** The modes in which the lock does not show the four scenes. */
    private static Stream<Library> elsewhere(String object, RedissonPurpose.Show purpose) {
        return everyMode(object, purpose).filter(l -> !l.mode().equals(RedissonMode.SINGLE.word));
    }

    /** Plays everything, or the libraries whose names begin with one of the arguments. */
    public static void main(String[] names) throws Exception {
        LogManager.getLogManager().reset(); // where there is no slf4j, Netty tells of every lost connection here
        List<Part> calm = new ArrayList<>();
        List<Part> kills = new ArrayList<>();
        List<Part> alone = new ArrayList<>();
        for (Library l : LIBRARIES) {
            if (names.length == 0 || Arrays.stream(names).anyMatch(l.name()::startsWith)) {
                l.scenes().stream()
                        .filter(s -> Env.asksFor(s.name()))
                        .forEach(s -> (s.alone() ? alone : s.kills() && Env.LOCKD ? kills : calm).add(new Part(l, s)));
            }
        }
        boolean passed = together(calm, AT_ONCE, null);
        for (int i = 0; i < kills.size(); i += IN_ROUND) {
            List<Part> some = kills.subList(i, Math.min(i + IN_ROUND, kills.size()));
            Round round = new Round(some.size());
            Future<Void> killer = Workers.start(() -> {
                round.play();
                return null;
            });
            passed &= together(some, some.size(), round);
            killer.get();
        }
        for (Part one : alone) {
            passed &= together(List.of(one), 1, null);
        }
        System.exit(passed ? 0 : 1); // whatever a client left running
    }

    /** Plays parts, a number of them at once, and prints their results in order. */
    private static boolean together(List<Part> parts, int atOnce, Round round) throws Exception {
        ExecutorService stage = Executors.newFixedThreadPool(atOnce);
        try {
            List<Future<Result>> results = stage.invokeAll(parts.stream().map(p -> p.playing(round)).toList());
            boolean passed = true;
            for (Future<Result> r : results) {
                System.out.println(r.get().line());
                passed &= r.get().passed();
            }
            return passed;
        } finally {
            stage.shutdown();
        }
    }

    /** A scene of a library. */
    record Part(Library library, Scene scene) {
        Callable<Result> playing(Round round) {
            return () -> {
                try {
                    Duration most = scene.alone() ? ALONE_MAX : SCENE_MAX;
                    return result("ok", Workers.within(most, () -> scene.show().play(round)));
                } catch (NoScene e) {
                    return result("none", e.getMessage());
                } catch (Exception e) {
                    e.printStackTrace(); // the words of the result say less
                    return result("fail", words(e));
                }
            };
        }

        /** An exception with its causes: the first one often says nothing. */
        private static String words(Throwable e) {
            return e.getCause() == null ? e.toString() : e + ": " + words(e.getCause());
        }

        private Result result(String verdict, String words) {
            String line = String.join(" ", "RESULT", library.name(), library.version(), library.mode(), scene.name(), verdict,
                    words.replaceAll("\\s+", " "));
            return new Result(line.strip(), !verdict.equals("fail"));
        }
    }

    record Result(String line, boolean passed) {}
}
