#include <stddef.h>
#include <string.h>
#include "text/grammar/schema_formats.h"

/* RFC 3339, sections 5.6 and 5.7: years have the length of their February. */
#define LEAP "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
#define YEAR "(?:\\d\\d\\d[1-9]|\\d\\d[1-9]0|\\d[1-9]00|[1-9]000)"
#define DATE                                                                                                           \
    "(?:" YEAR "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|"                  \
    "02-(?:0[1-9]|1\\d|2[0-8]))|" LEAP "-02-29)"
#define HOUR "(?:[01]\\d|2[0-3])"
#define TIME HOUR ":[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-]" HOUR ":[0-5]\\d)"

/* RFC 3986 and RFC 4291. */
#define OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4 OCTET "(?:\\." OCTET "){3}"
#define H "[0-9A-Fa-f]{1,4}"
#define LOW "(?:" H ":" H "|" IPV4 ")"
#define IPV6                                                                                                           \
    "(?:(?:" H ":){6}" LOW "|::(?:" H ":){5}" LOW "|(?:" H ")?::(?:" H ":){4}" LOW "|(?:(?:" H ":){0,1}" H ")?::(?:" H \
    ":){3}" LOW "|(?:(?:" H ":){0,2}" H ")?::(?:" H ":){2}" LOW "|(?:(?:" H ":){0,3}" H ")?::" H ":" LOW "|(?:(?:" H   \
    ":){0,4}" H ")?::" LOW "|(?:(?:" H ":){0,5}" H ")?::" H "|(?:(?:" H ":){0,6}" H ")?::)"

#define PCHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define HOST LABEL "(?:\\." LABEL ")*"
#define TAIL "(?:/" PCHAR "*)*(?:\\?(?:" PCHAR "|[/?])*)?(?:#(?:" PCHAR "|[/?])*)?"
#define ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"

const char *tfm__schema_format(const char *name) {
    static const struct {
        const char *name, *pattern;
    } FORMATS[] = {
        {"date", "^" DATE "$"},
        {"time", "^" TIME "$"},
        {"date-time", "^" DATE "T" TIME "$"},
        {"uuid", "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"},
        {"email", "^" ATOM "(?:\\." ATOM ")*@" HOST "$"},
        {"ipv4", "^" IPV4 "$"},
        {"ipv6", "^" IPV6 "$"},
        {"uri", "^[A-Za-z][A-Za-z0-9+.-]*:(?://" HOST "(?::\\d{1,5})?" TAIL "|" PCHAR "+" TAIL ")$"},
    };
    for (size_t i = 0; i < sizeof(FORMATS) / sizeof(*FORMATS); i++)
        if (strcmp(name, FORMATS[i].name) == 0)
            return FORMATS[i].pattern;
    return NULL;
}
