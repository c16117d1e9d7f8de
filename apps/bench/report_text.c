/* Anonymizes texts of a report: removes folders and names of users and machines. */
#include <ctype.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "bench/report.h"

/* Characters that end an unquoted path. */
static const char ENDS[] = " \t\r\n\"'`()[]{}<>|:,;";

static bool in_name(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static bool in_word(char c) {
    return in_name(c) || (c && strchr(".+-~", c));
}

/* ---- Paths ---- */

/* The length of one of the owner's folders at the start of a path, blanks included, or 0. */
static size_t own_folder(const report_owner *owner, const char *path) {
    size_t longest = 0;
    for (size_t i = 0; i < REPORT_FOLDERS && owner; i++) {
        const char *folder = owner->folders[i];
        size_t length = folder && *folder == '/' ? strlen(folder) : 0;
        while (length > 1 && folder[length - 1] == '/')
            length--;
        if (length > 1 && length > longest && strncmp(path, folder, length) == 0 && !in_word(path[length]))
            longest = length;
    }
    return longest;
}

/* Whether it contains folders of users, whose names may have blanks. */
static size_t users_folder(const char *path) {
    static const char *const ROOTS[] = {"/home/", "/Users/", "/users/", "/media/", "/run/media/", "/mnt/"};
    for (size_t i = 0; i < CLI_COUNT(ROOTS); i++)
        if (strncmp(path, ROOTS[i], strlen(ROOTS[i])) == 0)
            return strlen(ROOTS[i]);
    return 0;
}

/* The length of a name with blanks up to a slash, or 0. A name with a dot is a file, which ends its path. Some words of
 * a sentence with a slash are lost too: better than showing a name. */
static size_t past_blanks(const char *path, size_t length) {
    enum { WORDS = 3 };
    for (size_t i = length; i > 0 && path[i - 1] != '/'; i--)
        if (path[i - 1] == '.')
            return 0;
    for (int words = 0; words < WORDS && path[length] == ' '; words++) {
        const size_t word = strcspn(path + length + 1, ENDS);
        if (word == 0 || strchr("-./~", path[length + 1])) /* another path, or an option */
            return 0;
        length += 1 + word;
        const char *slash = memchr(path + length - word, '/', word);
        if (slash)
            return length;
    }
    return 0;
}

static size_t path_length(const report_owner *owner, const char *path, char quote) {
    size_t length = own_folder(owner, path);
    if (quote && strchr("\"'`", quote)) {
        const char marks[] = {quote, '\n', 0};
        const char *end = strpbrk(path, marks);
        while (end && *end == quote && in_name(end[1])) /* an apostrophe */
            end = strpbrk(end + 1, marks);
        if (end && *end == quote)
            return (size_t)(end - path);
    }
    for (;;) {
        length += strcspn(path + length, ENDS);
        if (path[length] == ' ' && length > 0 && path[length - 1] == '\\') {
            length++;
            continue;
        }
        const size_t further = users_folder(path) && path[length] == ' ' ? past_blanks(path, length) : 0;
        if (!further)
            return length;
        length = further;
    }
}

/* Whether it has at least two names, and a letter: 1/2 and GFLOP/s do not. */
static bool is_path(const char *path, size_t length) {
    size_t names = 0, letters = 0;
    for (size_t i = 0; i < length; i++) {
        names += path[i] != '/' && (i == 0 || path[i - 1] == '/');
        letters += isalpha((unsigned char)path[i]) || (unsigned char)path[i] >= 0x80;
    }
    return names > 1 && letters > 0;
}

/* Whether a path begins at a slash, after `before` bytes of its word: none, an option joined with its path, or a
 * relative folder, whose length is stored in *back. */
static bool path_begins(const char *slash, size_t before, size_t *back) {
    static const char *const OPTIONS[] = {"-I",         "-L",        "-F",       "-B",      "-o",
                                          "-idirafter", "-include",  "-isystem", "-iquote", "-rpath",
                                          "-imacros",   "--sysroot", "-"};
    const char *word = slash - before;
    for (size_t i = 0; i < CLI_COUNT(OPTIONS); i++) {
        const size_t length = strlen(OPTIONS[i]);
        const char *rest = word + length;
        if (length <= before && strncmp(word, OPTIONS[i], length) == 0 && (rest == slash || strchr(".~", *rest))) {
            word = rest;
            break;
        }
    }
    *back = (size_t)(slash - word);
    return *back == 0 || (*word == '~' && (*back == 1 || isalpha((unsigned char)word[1]))) ||
           (*back <= 2 && strspn(word, ".") == *back);
}

static void put_path(FILE *out, const report_owner *owner, const char *path, size_t length) {
    const size_t users = users_folder(path), own = own_folder(owner, path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    const char *last = path + length;
    while (last > path && last[-1] != '/')
        last--;
    if (own == length || (users && (size_t)(last - path) <= users)) /* its last name is a user's */
        fputs("(folder)", out);
    else
        fwrite(last, 1, (size_t)(path + length - last), out);
}

static void put_without_paths(FILE *out, const report_owner *owner, const char *text) {
    size_t word = 0;  /* bytes before `from` that are a word */
    long pending = 0; /* unwritten bytes of the word */
    const char *from = text;
    while (*from) {
        size_t back = 0;
        const bool address = strncmp(from, "//", 2) == 0 && from - text >= 2 && from[-1] == ':' && in_name(from[-2]);
        const bool file = address && from - text >= 5 && strncmp(from - 5, "file:", 5) == 0;
        if (address && !file) { /* a URL: unchanged */
            const size_t length = strcspn(from, " \t\r\n\"'`<>)]");
            fwrite(from, 1, length, out);
            from += length;
            word = 0;
            continue;
        }
        if (*from == '/' && (from == text || from[-1] != '/') && path_begins(from, word, &back)) {
            const char *path = from - back;
            const size_t length = back + path_length(owner, from, path > text ? path[-1] : 0);
            const bool own = own_folder(owner, path) == length;
            if (own || *path == '~' || is_path(from, length - back)) {
                fwrite(from - pending, 1, (size_t)pending - back, out);
                put_path(out, owner, path, length);
                from = path + length;
                word = 0;
                pending = 0;
                continue;
            }
        }
        /* A word is pending until it is known whether it begins a path. */
        word = in_word(*from) ? word + 1 : 0;
        pending++;
        from++;
        if (!word) {
            fwrite(from - pending, 1, (size_t)pending, out);
            pending = 0;
        }
    }
    fwrite(from - pending, 1, (size_t)pending, out);
}

/* ---- Names ---- */

/* Bytes of a private name as a word here, or 0. Single letters and common words are not private. */
static size_t names_length(const char *name, const char *text, const char *at) {
    static const char *const NOBODY[] = {"root", "user", "nobody", "ubuntu", "debian", "localhost", "(none)"};
    const size_t length = name ? strlen(name) : 0;
    if (length < 2 || strncmp(at, name, length) != 0 || (at > text && in_name(at[-1])) || in_name(at[length]))
        return 0;
    for (size_t i = 0; i < CLI_COUNT(NOBODY); i++)
        if (strcmp(name, NOBODY[i]) == 0)
            return 0;
    return length;
}

static void put_without_names(FILE *out, const report_owner *owner, const char *text) {
    for (const char *at = text; *at;) {
        size_t length = 0;
        for (size_t i = 0; i < REPORT_NAMES && owner; i++)
            if ((length = names_length(owner->users[i], text, at))) {
                fputs("(user)", out);
                break;
            }
        for (size_t i = 0; i < REPORT_NAMES && owner && !length; i++)
            if ((length = names_length(owner->hosts[i], text, at)))
                fputs("(host)", out);
        if (!length)
            fputc(*at, out);
        at += length ? length : 1;
    }
}

char *report_redact_owner(const report_owner *owner, const char *text) {
    char *parts[2] = {NULL, NULL};
    size_t sizes[2];
    for (int i = 0; i < 2 && (i == 0 || parts[0]); i++) {
        FILE *out = open_memstream(&parts[i], &sizes[i]);
        if (!out)
            break;
        if (i == 0)
            put_without_paths(out, owner, text);
        else
            put_without_names(out, owner, parts[0]);
        if (fclose(out) != 0) {
            free(parts[i]);
            parts[i] = NULL;
        }
    }
    free(parts[0]);
    return parts[1];
}

/* The current user and machine, cached since a lookup may query a server. */
static const report_owner *this_owner(void) {
    static report_owner owner;
    static struct utsname system;
    static char host[sizeof(system.nodename)], full[128];
    static const char *const FOLDERS[] = {"HOME",           "PWD",       "TMPDIR", "XDG_CACHE_HOME", "TFM_CACHE_DIR",
                                          "POCL_CACHE_DIR", "TFM_CL_DIR"};
    static bool known;
    if (known)
        return &owner;
    known = true;
    for (size_t i = 0; i < CLI_COUNT(FOLDERS); i++)
        owner.folders[i] = getenv(FOLDERS[i]);
    owner.users[0] = getenv("USER");
    owner.users[1] = getenv("LOGNAME");
    const struct passwd *user = getpwuid(getuid());
    if (user) {
        owner.users[2] = strdup(user->pw_name);
        owner.folders[CLI_COUNT(FOLDERS)] = strdup(user->pw_dir);
        /* A single word may be a system's name: distributions name their first user so. */
        snprintf(full, sizeof(full), "%.*s", (int)strcspn(user->pw_gecos ? user->pw_gecos : "", ","),
                 user->pw_gecos ? user->pw_gecos : "");
        owner.users[3] = strchr(full, ' ') ? full : NULL;
    }
    if (uname(&system) == 0) {
        snprintf(host, sizeof(host), "%.*s", (int)strcspn(system.nodename, "."), system.nodename);
        owner.hosts[0] = system.nodename;
        owner.hosts[1] = host;
    }
    return &owner;
}

char *report_redact(const char *text) {
    return report_redact_owner(this_owner(), text);
}

void report_set_text(json_t *object, const char *name, const char *text) {
    char *shown = report_redact(text);
    json_t *value = shown ? json_string(shown) : NULL;
    json_object_set_new(object, name, value ? value : json_string("(not UTF-8)"));
    free(shown);
}

void report_failed(json_t *report) {
    if (!json_object_get(report, "failed"))
        report_set_text(report, "failed", tfm_error_message());
}
