package clients;

import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import org.springframework.data.redis.connection.RedisClusterConfiguration;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.connection.RedisSentinelConfiguration;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.jedis.JedisClientConfiguration;
import org.springframework.data.redis.connection.jedis.JedisConnectionFactory;
import org.springframework.data.redis.connection.lettuce.LettuceClientConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.data.redis.core.script.DefaultRedisScript;
import org.springframework.data.redis.core.script.RedisScript;

/** A lock made of Spring's StringRedisTemplate: setIfAbsent, and a script for the release. */
final class SpringTemplate implements Program {
    /** The polling interval of a program. */
    static final Duration POLL = Duration.ofMillis(50);

    /** Bounds the wait for an answer. Lettuce would wait for a minute, also for a dead node. */
    private static final Duration TIMEOUT = Duration.ofSeconds(5);

    private static final RedisScript<Long> RELEASE = new DefaultRedisScript<>(Plain.RELEASE, Long.class);

    private final Connections connections;
    private final StringRedisTemplate template;
    private final Duration lease;

    SpringTemplate(Connections connections, Duration lease) {
        this.connections = connections;
        this.lease = lease;
        template = new StringRedisTemplate(connections.factory());
    }

    /** A connection factory that can be closed. */
    record Connections(RedisConnectionFactory factory, Runnable end) {}

    static Connections lettuceSingle(int i) {
        return lettuce(new LettuceConnectionFactory(single(i), lettuceClient().build()));
    }

    static Connections lettuceSentinel(int i) {
        return lettuce(new LettuceConnectionFactory(sentinel(), lettuceClient().build()));
    }

    static Connections lettuceCluster(int i) {
        return lettuce(new LettuceConnectionFactory(
                cluster(), lettuceClient().clientOptions(LettucePlain.refreshing()).build()));
    }

    private static LettuceClientConfiguration.LettuceClientConfigurationBuilder lettuceClient() {
        return LettuceClientConfiguration.builder().commandTimeout(TIMEOUT).shutdownTimeout(Duration.ZERO);
    }

    private static Connections lettuce(LettuceConnectionFactory f) {
        f.afterPropertiesSet();
        f.start();
        return new Connections(f, f::destroy);
    }

    static Connections jedisSingle(int i) {
        return jedis(new JedisConnectionFactory(single(i), jedisClient()));
    }

    static Connections jedisSentinel(int i) {
        return jedis(new JedisConnectionFactory(sentinel(), jedisClient()));
    }

    static Connections jedisCluster(int i) {
        return jedis(new JedisConnectionFactory(cluster(), jedisClient()));
    }

    private static JedisClientConfiguration jedisClient() {
        return JedisClientConfiguration.builder().readTimeout(TIMEOUT).build();
    }

    private static Connections jedis(JedisConnectionFactory f) {
        f.afterPropertiesSet();
        f.start();
        return new Connections(f, f::destroy);
    }

    private static RedisStandaloneConfiguration single(int i) {
        return new RedisStandaloneConfiguration(Env.host(Env.node(i)), Env.port(Env.node(i)));
    }

    private static RedisSentinelConfiguration sentinel() {
        return new RedisSentinelConfiguration(Env.MASTER, Set.copyOf(Env.SENTINELS));
    }

    private static RedisClusterConfiguration cluster() {
        return new RedisClusterConfiguration(Env.CLUSTER);
    }

    @Override
    public Locker lock(String name) {
        return new Locker() {
            private String token;

            @Override
            public void lock() throws InterruptedException {
                token = UUID.randomUUID().toString();
                while (!Boolean.TRUE.equals(template.opsForValue().setIfAbsent(name, token, lease))) {
                    Thread.sleep(POLL.toMillis());
                }
            }

            @Override
            public void unlock() {
                if (template.execute(RELEASE, List.of(name), token) != 1) {
                    throw new IllegalStateException("the lock was not ours any more");
                }
            }
        };
    }

    @Override
    public void close() {
        connections.end().run();
    }
}
