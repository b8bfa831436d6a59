package clients;

import java.time.Duration;

/** A client that is no lock library, as a program uses it that locks by hand. */
interface Plain extends AutoCloseable {
    String RELEASE =
            "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

    void set(String key, String value);

    String get(String key);

    boolean setIfAbsent(String key, String value, Duration lease);

    /** Runs {@link #RELEASE}. */
    long release(String key, String value);

    /** Three INCR in one write; what the last one answers. */
    long pipeline(String key) throws Exception;

    /** MULTI, INCR, EXEC; what INCR answers. */
    long transaction(String key) throws Exception;

    /** The words of the error that HGET of a string is. */
    String error(String key);

    /** Subscribes, publishes, and returns the message that comes. */
    String echo(String channel, String message) throws Exception;

    @Override
    void close();

    /** Makes a client that waits so long for an answer. */
    interface Open {
        Plain open(Duration timeout);
    }
}
