package clients;

import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A client in one mode, with its scenes.
 *
 * @param type a class of the library, whose version is reported
 */
record Library(String name, Class<?> type, String mode, List<Scene> scenes) {
    private static final Pattern JAR = Pattern.compile("-(\\d[^/]*)\\.jar$");

    /** The version in the name of the file that the class was loaded from. */
    String version() {
        String file = type.getProtectionDomain().getCodeSource().getLocation().getPath();
        Matcher m = JAR.matcher(file);
        return m.find() ? m.group(1) : "?";
    }
}
