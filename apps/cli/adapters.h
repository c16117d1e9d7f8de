/* The adapters of commands that open a model. */
#ifndef TFM_CLI_ADAPTERS_H
#define TFM_CLI_ADAPTERS_H

#include <tfm/model.h>

enum { CLI_MAX_ADAPTERS = 16 };

/* Value of CLI_ADAPTER and CLI_ADAPTER_SCALE. */
typedef struct cli_adapters {
    tfm_adapter items[CLI_MAX_ADAPTERS];
    size_t count;
} cli_adapters;

#define CLI_ADAPTERS(adapters)                                                                                         \
    {0,                                                                                                                \
     "adapter",                                                                                                        \
     CLI_ADAPTER,                                                                                                      \
     (adapters),                                                                                                       \
     "DIR",                                                                                                            \
     "a LoRA adapter of PEFT for the model: its directory, or its name on the Hugging Face hub; repeatable",           \
     NULL},                                                                                                            \
    {                                                                                                                  \
        0, "adapter-scale", CLI_ADAPTER_SCALE, (adapters), "S", "multiply the --adapter before it by S (default 1)",   \
            NULL                                                                                                       \
    }

#endif
