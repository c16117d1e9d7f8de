/* Reads properties of the demo model from its directory, so that tests do not depend on one model. Needs scratch.h and
 * jansson. */
#ifndef TFM_TESTS_DEMO_H
#define TFM_TESTS_DEMO_H

#include <jansson.h>
#include "support/scratch.h"

/* A line of a text file in apps/demo, from 1; free with free(). */
static inline char *demo_line(const char *name, int number) {
    char relative[256];
    size_t size;
    snprintf(relative, sizeof(relative), "apps/demo/%s", name);
    char *text = scratch_source(relative, &size), *rest = text, *line = NULL;
    for (int i = 0; i < number; i++) {
        line = strsep(&rest, "\n");
        assert_non_null(rest); /* each line ends with a newline */
    }
    line = strdup(line);
    assert_non_null(line);
    free(text);
    return line;
}

/* A JSON file of apps/demo; json_decref. */
static inline json_t *demo_json(const char *name) {
    char relative[256];
    snprintf(relative, sizeof(relative), "apps/demo/%s", name);
    char *path = harness_source(relative);
    json_t *json = json_load_file(path, 0, NULL);
    assert_non_null(json);
    free(path);
    return json;
}

/* An integer of its config.json. */
static inline int demo_number(const char *key) {
    json_t *config = demo_json("config.json");
    assert_true(json_is_integer(json_object_get(config, key)));
    const int value = (int)json_integer_value(json_object_get(config, key));
    json_decref(config);
    return value;
}

#endif
