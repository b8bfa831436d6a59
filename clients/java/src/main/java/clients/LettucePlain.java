package clients;

import io.lettuce.core.AbstractRedisClient;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.api.StatefulConnection;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.cluster.api.async.RedisClusterAsyncCommands;
import io.lettuce.core.cluster.api.sync.RedisClusterCommands;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** Lettuce in each of its modes. */
final class LettucePlain implements Plain {
    private final AbstractRedisClient client;
    private final StatefulConnection<String, String> connection;
    private final RedisClusterCommands<String, String> sync;
    private final RedisClusterAsyncCommands<String, String> async;
    private final Supplier<RedisCommands<String, String>> oneNode;
    private final Supplier<StatefulRedisPubSubConnection<String, String>> subscriber;

    LettucePlain(RedisClient client) {
        StatefulRedisConnection<String, String> c = client.connect();
        this.client = client;
        connection = c;
        sync = c.sync();
        async = c.async();
        oneNode = c::sync;
        subscriber = client::connectPubSub;
    }

    LettucePlain(RedisClusterClient client) {
        StatefulRedisClusterConnection<String, String> c = client.connect();
        this.client = client;
        connection = c;
        sync = c.sync();
        async = c.async();
        // Lettuce has no transaction in a cluster: a program asks for the node that has the slot.
        oneNode = () -> c.getConnection(c.getPartitions().getMasterBySlot(0).getNodeId()).sync();
        subscriber = client::connectPubSub;
    }

    static Plain single(ProtocolVersion protocol, Duration timeout) {
        RedisClient client = RedisClient.create(uri(Env.node(0), timeout));
        client.setOptions(ClientOptions.builder().protocolVersion(protocol).build());
        return new LettucePlain(client);
    }

    static Plain sentinel(Duration timeout) {
        return new LettucePlain(RedisClient.create(sentinels().withTimeout(timeout).build()));
    }

    static Plain cluster(Duration timeout) {
        RedisClusterClient client =
                RedisClusterClient.create(Env.CLUSTER.stream().map(a -> uri(a, timeout)).toList());
        client.setOptions(refreshing());
        return new LettucePlain(client);
    }

    /** By default Lettuce asks for the slots again only after some errors, and at most once in 30 s. */
    static ClusterClientOptions refreshing() {
        return ClusterClientOptions.builder()
                .topologyRefreshOptions(ClusterTopologyRefreshOptions.builder()
                        .enablePeriodicRefresh(Duration.ofMillis(500))
                        .adaptiveRefreshTriggersTimeout(Duration.ofMillis(200))
                        .build())
                .build();
    }

    static RedisURI.Builder sentinels() {
        RedisURI.Builder uri = RedisURI.builder().withSentinelMasterId(Env.MASTER);
        Env.SENTINELS.forEach(s -> uri.withSentinel(Env.host(s), Env.port(s)));
        return uri;
    }

    static RedisURI uri(String address, Duration timeout) {
        return RedisURI.builder().withHost(Env.host(address)).withPort(Env.port(address)).withTimeout(timeout).build();
    }

    @Override
    public void set(String key, String value) {
        sync.set(key, value, SetArgs.Builder.px(60_000));
    }

    @Override
    public String get(String key) {
        return sync.get(key);
    }

    @Override
    public boolean setIfAbsent(String key, String value, Duration lease) {
        return "OK".equals(sync.set(key, value, SetArgs.Builder.nx().px(lease.toMillis())));
    }

    @Override
    public long release(String key, String value) {
        return sync.<Long>eval(RELEASE, ScriptOutputType.INTEGER, new String[] {key}, value);
    }

    @Override
    public long pipeline(String key) throws Exception {
        connection.setAutoFlushCommands(false);
        List<RedisFuture<Long>> answers = List.of(async.incr(key), async.incr(key), async.incr(key));
        connection.flushCommands();
        connection.setAutoFlushCommands(true);
        return answers.get(2).get(10, TimeUnit.SECONDS);
    }

    @Override
    public long transaction(String key) {
        RedisCommands<String, String> node = oneNode.get();
        node.multi();
        node.incr(key);
        return node.exec().<Long>get(0);
    }

    @Override
    public String error(String key) {
        try {
            return sync.hget(key, "f");
        } catch (RedisCommandExecutionException e) {
            return e.getMessage();
        }
    }

    @Override
    public String echo(String channel, String message) throws Exception {
        CompletableFuture<String> got = new CompletableFuture<>();
        try (StatefulRedisPubSubConnection<String, String> c = subscriber.get()) {
            c.addListener(new RedisPubSubAdapter<>() {
                @Override
                public void message(String channel, String text) {
                    got.complete(text);
                }
            });
            c.sync().subscribe(channel);
            sync.publish(channel, message);
            return got.get(10, TimeUnit.SECONDS);
        }
    }

    @Override
    public void close() {
        client.shutdown(Duration.ZERO, Duration.ofSeconds(5));
    }
}
