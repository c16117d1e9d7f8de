/* Grammars of `tfm generate` (generate_grammar.c). */
#ifndef TFM_COMMANDS_GENERATE_GRAMMAR_H
#define TFM_COMMANDS_GENERATE_GRAMMAR_H

#include <tfm/tfm.h>
#include "cli/cli.h"

/* Compiles a JSON schema, which is its text or a file, or the GBNF of a file. Both NULL: NULL. CLI_OK, or CLI_FAILED
 * after a message. */
int generate_grammar(tfm_grammar **out, const char *schema, const char *grammar);

#endif
