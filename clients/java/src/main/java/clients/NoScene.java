package clients;

/** A scene's way to say that there is nothing it could show. */
final class NoScene extends Exception {
    private static final long serialVersionUID = 1;

    NoScene(String reason) {
        super(reason);
    }
}
