/* Creates a directory with a small random GPT-2, for tests of the program.
 *     make_decoder DIR */
#include <stdint.h>
#include "support/tensors_file.h"

enum { WIDTH = 24, LAYERS = 2, VOCABULARY = 50, POSITIONS = 40 };

static uint64_t state = 11;

/* Random numbers with a mean and a spread. */
static void add(tensors_file *f, const char *name, int64_t rows, int64_t columns, double middle, double spread) {
    const size_t count = (size_t)((rows ? rows : 1) * columns);
    float *numbers = malloc(count * sizeof(*numbers));
    if (!numbers)
        abort();
    for (size_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        numbers[i] = (float)(middle + spread * ((double)(state >> 40) / (1 << 23) - 1));
    }
    tensors_add(f, name, numbers, rows, columns, false);
    free(numbers);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int rows, columns;
    } parts[] = {{"ln_1.weight", 0, WIDTH},
                 {"ln_1.bias", 0, WIDTH},
                 {"attn.c_attn.weight", WIDTH, 3 * WIDTH},
                 {"attn.c_attn.bias", 0, 3 * WIDTH},
                 {"attn.c_proj.weight", WIDTH, WIDTH},
                 {"attn.c_proj.bias", 0, WIDTH},
                 {"ln_2.weight", 0, WIDTH},
                 {"ln_2.bias", 0, WIDTH},
                 {"mlp.c_fc.weight", WIDTH, 4 * WIDTH},
                 {"mlp.c_fc.bias", 0, 4 * WIDTH},
                 {"mlp.c_proj.weight", 4 * WIDTH, WIDTH},
                 {"mlp.c_proj.bias", 0, WIDTH}};
    tensors_file f = {.header = json_object()};
    if (argc != 2)
        return 2;
    add(&f, "transformer.wte.weight", VOCABULARY, WIDTH, 0, 1);
    add(&f, "transformer.wpe.weight", POSITIONS, WIDTH, 0, 1);
    for (int layer = 0; layer < LAYERS; layer++)
        for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
            char name[96];
            snprintf(name, sizeof(name), "transformer.h.%d.%s", layer, parts[i].name);
            add(&f, name, parts[i].rows, parts[i].columns,
                strncmp(parts[i].name, "ln", 2) ? 0 : strstr(name, "weight") != NULL, parts[i].rows ? 0.5 : 0.1);
        }
    add(&f, "transformer.ln_f.weight", 0, WIDTH, 1, 0.1);
    add(&f, "transformer.ln_f.bias", 0, WIDTH, 0, 0.1);
    tensors_finish(&f, argv[1],
                   "{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2LMHeadModel\"], \"n_embd\": 24, \"n_layer\": "
                   "2, \"n_head\": 3, \"n_positions\": 40, \"vocab_size\": 50, \"bos_token_id\": 1, \"eos_token_id\": "
                   "2}\n");
    return 0;
}
