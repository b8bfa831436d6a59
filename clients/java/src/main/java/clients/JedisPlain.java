package clients;

import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Collectors;
import redis.clients.jedis.AbstractPipeline;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.RedisSentinelClient;
import redis.clients.jedis.Response;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.util.JedisClusterCRC16;

/** Jedis in each of its modes. */
final class JedisPlain implements Plain {
    private final UnifiedJedis jedis;
    private final Function<String, AbstractTransaction> multi;

    JedisPlain(UnifiedJedis jedis) {
        this.jedis = jedis;
        multi = key -> jedis.multi();
    }

    /** Jedis has no transaction in a cluster: a program asks for a connection to the node that has the slot. */
    JedisPlain(RedisClusterClient jedis) {
        this.jedis = jedis;
        multi = key -> new Transaction(jedis.getConnectionFromSlot(JedisClusterCRC16.getSlot(key)), true, true);
    }

    private static DefaultJedisClientConfig.Builder config(Duration timeout) {
        return DefaultJedisClientConfig.builder().timeoutMillis((int) timeout.toMillis());
    }

    static Plain single(RedisProtocol protocol, Duration timeout) {
        return new JedisPlain(ofNode(protocol, 0, timeout));
    }

    static Plain sentinel(Duration timeout) {
        return new JedisPlain(ofSentinels(timeout));
    }

    static Plain cluster(Duration timeout) {
        return new JedisPlain(ofCluster(timeout));
    }

    static RedisClient ofNode(RedisProtocol protocol, int i, Duration timeout) {
        return RedisClient.builder()
                .hostAndPort(HostAndPort.from(Env.node(i)))
                .clientConfig(config(timeout).protocol(protocol).build())
                .build();
    }

    static RedisSentinelClient ofSentinels(Duration timeout) {
        return RedisSentinelClient.builder()
                .masterName(Env.MASTER)
                .sentinels(addresses(Env.SENTINELS))
                .clientConfig(config(timeout).build())
                .build();
    }

    /** By default Jedis asks for the slots only after a failed call, and pauses for seconds between its attempts. */
    static RedisClusterClient ofCluster(Duration timeout) {
        return RedisClusterClient.builder()
                .nodes(addresses(Env.CLUSTER))
                .clientConfig(config(timeout).build())
                .topologyRefreshPeriod(Duration.ofSeconds(1))
                .maxTotalRetriesDuration(Duration.ofSeconds(1))
                .build();
    }

    static Set<HostAndPort> addresses(List<String> addresses) {
        return addresses.stream().map(HostAndPort::from).collect(Collectors.toSet());
    }

    @Override
    public void set(String key, String value) {
        jedis.set(key, value, SetParams.setParams().px(60_000));
    }

    @Override
    public String get(String key) {
        return jedis.get(key);
    }

    @Override
    public boolean setIfAbsent(String key, String value, Duration lease) {
        return "OK".equals(jedis.set(key, value, SetParams.setParams().nx().px(lease.toMillis())));
    }

    @Override
    public long release(String key, String value) {
        return (Long) jedis.eval(RELEASE, List.of(key), List.of(value));
    }

    @Override
    public long pipeline(String key) {
        try (AbstractPipeline p = jedis.pipelined()) {
            p.incr(key);
            p.incr(key);
            Response<Long> last = p.incr(key);
            p.sync();
            return last.get();
        }
    }

    @Override
    public long transaction(String key) {
        try (AbstractTransaction t = multi.apply(key)) {
            Response<Long> answer = t.incr(key);
            t.exec();
            return answer.get();
        }
    }

    @Override
    public String error(String key) {
        try {
            return jedis.hget(key, "f");
        } catch (JedisDataException e) {
            return e.getMessage();
        }
    }

    @Override
    public String echo(String channel, String message) throws Exception {
        CompletableFuture<String> got = new CompletableFuture<>();
        JedisPubSub sub = new JedisPubSub() {
            @Override
            public void onSubscribe(String channel, int count) {
                Workers.start(() -> jedis.publish(channel, message));
            }

            @Override
            public void onMessage(String channel, String text) {
                got.complete(text);
                unsubscribe();
            }
        };
        Future<Void> reading = Workers.start(() -> {
            jedis.subscribe(sub, channel);
            return null;
        });
        String text = got.get(10, TimeUnit.SECONDS);
        Workers.result(reading);
        return text;
    }

    @Override
    public void close() {
        jedis.close();
    }
}
