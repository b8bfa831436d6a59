package clients;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;

/** Threads of the scenes. None keeps the suite from ending. */
final class Workers {
    private static final ExecutorService THREADS = Executors.newCachedThreadPool(run -> {
        Thread t = new Thread(run);
        t.setDaemon(true);
        return t;
    });

    private Workers() {}

    /** The task of worker number i. */
    interface Task {
        void run(int i) throws Exception;
    }

    static <T> Future<T> start(Callable<T> task) {
        return THREADS.submit(task);
    }

    /** Runs n workers, and fails with the failure of one. */
    static void run(int n, Task task) throws Exception {
        List<Future<Void>> all = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            int number = i;
            all.add(start(() -> {
                task.run(number);
                return null;
            }));
        }
        for (Future<Void> one : all) {
            result(one);
        }
    }

    /** The result of a future, or the exception of its task. */
    static <T> T result(Future<T> future) throws Exception {
        try {
            return future.get();
        } catch (ExecutionException e) {
            throw e.getCause() instanceof Exception cause ? cause : e;
        }
    }

    /** Runs a task that must end: otherwise the failure has its stack. */
    static <T> T within(Duration most, Callable<T> task) throws Exception {
        AtomicReference<Thread> thread = new AtomicReference<>();
        Future<T> future = start(() -> {
            thread.set(Thread.currentThread());
            return task.call();
        });
        try {
            future.get(most.toMillis(), TimeUnit.MILLISECONDS);
        } catch (ExecutionException e) {
            return result(future);
        } catch (TimeoutException e) {
            Violation hung = new Violation("it hung for " + most);
            hung.setStackTrace(thread.get().getStackTrace());
            throw hung;
        }
        return result(future);
    }
}
