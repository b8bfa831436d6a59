package clients;

import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.BaseMasterSlaveServersConfig;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.ConstantDelay;
import org.redisson.config.SentinelServersConfig;
import redis.clients.jedis.RedisClusterClient.Builder;
import redis.clients.jedis.RedisSentinelClient;

/** The clients of the scene resume, each with the settings of docs/clients.md. */
final class ResumeClients {
    private static final String LEADER = "/kill-leader";
    private static final String CLUSTER_LEADER = "/kill-cluster-leader";

    private ResumeClients() {}

    static Scene jedisSentinel() {
        return Resume.of(LEADER, () -> Resume.of(new JedisPlain(RedisSentinelClient.builder()
                .masterName(Env.MASTER)
                .sentinels(JedisPlain.addresses(Env.SENTINELS))
                .build())));
    }

    static Scene jedisCluster() {
        return Resume.of(
                CLUSTER_LEADER,
                () -> Resume.of(new JedisPlain(jedisNodes()
                        .maxTotalRetriesDuration(Duration.ofMillis(500))
                        .topologyRefreshPeriod(Duration.ofMillis(200))
                        .build())),
                () -> Resume.of(new JedisPlain(jedisNodes().build())));
    }

    private static Builder jedisNodes() {
        Builder b = redis.clients.jedis.RedisClusterClient.builder();
        b.nodes(JedisPlain.addresses(Env.CLUSTER));
        return b;
    }

    static Scene lettuceSentinel() {
        return Resume.of(LEADER, () -> Resume.of(new LettucePlain(RedisClient.create(LettucePlain.sentinels().build()))));
    }

    static Scene lettuceCluster() {
        return Resume.of(CLUSTER_LEADER, () -> lettuceCluster(true), () -> lettuceCluster(false));
    }

    private static Resume.Client lettuceCluster(boolean tuned) {
        Duration timeout = tuned ? Duration.ofMillis(300) : RedisURI.DEFAULT_TIMEOUT_DURATION;
        RedisClusterClient client = RedisClusterClient.create(
                Env.CLUSTER.stream().map(a -> LettucePlain.uri(a, timeout)).toList());
        if (tuned) {
            client.setOptions(ClusterClientOptions.builder()
                    .topologyRefreshOptions(ClusterTopologyRefreshOptions.builder()
                            .enablePeriodicRefresh(Duration.ofMillis(200))
                            .build())
                    .build());
        }
        return Resume.of(new LettucePlain(client));
    }

    static Scene redissonSentinel() {
        return Resume.of(LEADER, () -> redissonSentinel(true), () -> redissonSentinel(false));
    }

    private static Resume.Client redissonSentinel(boolean tuned) {
        Config config = new Config();
        SentinelServersConfig servers = config.useSentinelServers()
                .setMasterName(Env.MASTER)
                .addSentinelAddress(RedissonMode.urls(Env.SENTINELS));
        if (tuned) {
            tune(servers.setScanInterval(200));
        }
        return redisson(config);
    }

    static Scene redissonCluster() {
        return Resume.of(CLUSTER_LEADER, () -> redissonCluster(true), () -> redissonCluster(false));
    }

    private static Resume.Client redissonCluster(boolean tuned) {
        Config config = new Config();
        ClusterServersConfig servers = config.useClusterServers().addNodeAddress(RedissonMode.urls(Env.CLUSTER));
        if (tuned) {
            tune(servers.setScanInterval(200));
        }
        return redisson(config);
    }

    private static void tune(BaseMasterSlaveServersConfig<?> servers) {
        servers.setTimeout(300).setRetryDelay(new ConstantDelay(Duration.ofMillis(100))).setRetryAttempts(20);
    }

    private static Resume.Client redisson(Config config) {
        RedissonClient client = Redisson.create(config);
        return new Resume.Client() {
            @Override
            public void set(String key) {
                client.getBucket(key, StringCodec.INSTANCE).set("x", Duration.ofMinutes(1));
            }

            @Override
            public void close() {
                client.shutdown(0, 5, TimeUnit.SECONDS);
            }
        };
    }
}
