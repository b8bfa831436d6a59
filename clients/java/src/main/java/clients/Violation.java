package clients;

/** What must never happen, also where errors of a library are allowed. */
final class Violation extends RuntimeException {
    private static final long serialVersionUID = 1;

    Violation(String what) {
        super(what);
    }
}
