package clients;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.List;

/** The addresses of the servers, and the control port that breaks them (../doc.go of the runner). */
final class Env {
    static final List<String> NODES = list("CLIENTS_NODES");
    static final List<String> CLUSTER = list("CLIENTS_CLUSTER");
    static final List<String> SENTINELS = list("CLIENTS_SENTINELS");
    static final List<String> TLS = list("CLIENTS_TLS");
    static final String CA = System.getenv("CLIENTS_CA");
    static final String MASTER = System.getenv("CLIENTS_MASTER");
    static final String TARGET = System.getenv("CLIENTS_TARGET");
    private static final String SCENE = System.getenv().getOrDefault("CLIENTS_SCENE", "");
    static final boolean LOCKD = "lockd".equals(TARGET);

    private static final HttpClient HTTP = HttpClient.newHttpClient();

    private Env() {}

    /** Whether the runner wants to see a scene. */
    static boolean asksFor(String scene) {
        return SCENE.isEmpty() || SCENE.equals(scene);
    }

    private static List<String> list(String name) {
        String value = System.getenv(name);
        return value == null || value.isEmpty() ? List.of() : List.of(value.split(","));
    }

    /** The address of a node, by any number. */
    static String node(int i) {
        return NODES.get(i % NODES.size());
    }

    static String host(String address) {
        return address.substring(0, address.lastIndexOf(':'));
    }

    static int port(String address) {
        return Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
    }

    /** Sends a request to the control port. */
    static void tell(String path) throws IOException, InterruptedException {
        URI uri = URI.create(System.getenv("CLIENTS_CONTROL") + path);
        HttpResponse<String> answer =
                HTTP.send(HttpRequest.newBuilder(uri).POST(BodyPublishers.noBody()).build(), BodyHandlers.ofString());
        if (answer.statusCode() != 200) {
            throw new IOException(path + ": " + answer.body().strip());
        }
    }

    /** Refuses a scene that the target cannot play. */
    static void needsFailover() throws NoScene {
        if (!LOCKD) {
            throw new NoScene(TARGET + " has no failover of a single server here");
        }
    }
}
