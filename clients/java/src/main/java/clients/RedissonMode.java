package clients;

import java.time.Duration;
import java.util.List;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.redisson.config.Protocol;

/** The ways in which Redisson finds the servers. */
enum RedissonMode {
    SINGLE("single") {
        @Override
        void servers(Config config, int i) {
            config.useSingleServer()
                    .setAddress(url(Env.node(i)))
                    .setConnectionMinimumIdleSize(IDLE);
        }
    },
    SINGLE_3("single/3") {
        @Override
        void servers(Config config, int i) {
            SINGLE.servers(config.setProtocol(Protocol.RESP3), i);
        }
    },
    TLS("tls") {
        @Override
        void servers(Config config, int i) {
            config.setSslTrustManagerFactory(Trust.of(Env.CA))
                    .useSingleServer()
                    .setAddress("rediss://" + Env.TLS.get(i % Env.TLS.size()))
                    .setConnectionMinimumIdleSize(IDLE);
        }
    },
    SENTINEL("sentinel") {
        @Override
        void servers(Config config, int i) {
            // The check would refuse a single sentinel, such as the referee's.
            config.useSentinelServers()
                    .setMasterName(Env.MASTER)
                    .setCheckSentinelsList(Env.LOCKD)
                    .addSentinelAddress(urls(Env.SENTINELS))
                    .setMasterConnectionMinimumIdleSize(IDLE)
                    .setSlaveConnectionMinimumIdleSize(IDLE);
        }
    },
    CLUSTER("cluster") {
        @Override
        void servers(Config config, int i) {
            config.useClusterServers()
                    .addNodeAddress(urls(Env.CLUSTER))
                    .setScanInterval(1000) // its own is 5 s: so late it would see a new master
                    .setMasterConnectionMinimumIdleSize(IDLE)
                    .setSlaveConnectionMinimumIdleSize(IDLE);
        }
    },
    REPLICATED("replicated") {
        @Override
        void servers(Config config, int i) {
            config.useReplicatedServers()
                    .addNodeAddress(urls(Env.NODES))
                    .setMasterConnectionMinimumIdleSize(IDLE)
                    .setSlaveConnectionMinimumIdleSize(IDLE);
        }
    };

    /** Connections that a client opens at once; the default is 24 for each node. */
    private static final int IDLE = 2;

    private static final int THREADS = 4;

    final String word;

    RedissonMode(String word) {
        this.word = word;
    }

    abstract void servers(Config config, int i);

    /**
     * Opens a client.
     *
     * @param watchdog time for which a lock without a lease outlives its client
     * @param fairWait time for which a fair lock waits for the first in its queue, which may be dead
     */
    RedissonClient open(int i, Duration watchdog, Duration fairWait) {
        Config config = new Config()
                .setThreads(THREADS)
                .setNettyThreads(THREADS)
                .setLockWatchdogTimeout(watchdog.toMillis())
                .setFairLockWaitTimeout(fairWait.toMillis());
        servers(config, i);
        return Redisson.create(config);
    }

    private static String url(String address) {
        return "redis://" + address;
    }

    static String[] urls(List<String> addresses) {
        return addresses.stream().map(RedissonMode::url).toArray(String[]::new);
    }
}
