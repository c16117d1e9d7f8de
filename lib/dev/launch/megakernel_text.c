/* The text of the megakernel: kernels as functions, calls of them, and the kernel that runs them. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "dev/launch/megakernel_text.h"
#include "dev/program/program.h"

/* Parameters and built-in functions of a body. Local memory of one item is private. */
static const char POSITION[] =
    "#define get_global_id(d) ((d) == 0 ? tfm_id0 : (d) == 1 ? tfm_id1 : tfm_id2)\n"
    "#define get_global_size(d) ((d) == 0 ? tfm_n0 : (d) == 1 ? tfm_n1 : tfm_n2)\n"
    "#define get_group_id(d) get_global_id(d)\n"
    "#define get_num_groups(d) get_global_size(d)\n"
    "#define get_local_id(d) ((size_t)0)\n"
    "#define get_local_size(d) ((size_t)1)\n"
    "#define barrier(fence)\n"
    "#define __local __private\n"
    "#define TFM_POSITION_PARAMETERS const size_t tfm_id0, const size_t tfm_id1, const size_t tfm_id2, "
    "const size_t tfm_n0, const size_t tfm_n1, const size_t tfm_n2\n"
    "#define TFM_POSITION tfm_id0, tfm_id1, tfm_id2, tfm_n0, tfm_n1, tfm_n2\n";

/* The end of `TFM_KERNEL void name(` at `text`, or NULL; *name is where the name begins. */
static const char *kernel_head(const char **name, const char *text) {
    static const char *const WORDS[] = {"TFM_KERNEL", "__kernel __attribute__((reqd_work_group_size(1, 1, 1)))"};
    for (size_t i = 0; i < TFM__COUNT(WORDS); i++) {
        if (strncmp(text, WORDS[i], strlen(WORDS[i])) != 0)
            continue;
        const char *at = text + strlen(WORDS[i]);
        at += strspn(at, " \n");
        if (strncmp(at, "void", 4) != 0)
            continue;
        at += 4;
        *name = at += strspn(at, " \n");
        while (isalnum((unsigned char)*at) || *at == '_')
            at++;
        if (*at == '(' && at > *name)
            return at + 1;
    }
    return NULL;
}

char *tfm__megakernel_body_text(const char *source, const tfm__kernel *kernel, size_t number) {
    static const char CONSTANT[] = "\n__constant ";
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    fputs(POSITION, out);
    while (*source) {
        const char *name, *after = kernel_head(&name, source);
        if (strncmp(source, CONSTANT, strlen(CONSTANT)) == 0)
            fputs("\nstatic ", out), source++;
        if (after) {
            fprintf(out, "static void %.*sTFM_POSITION_PARAMETERS, ", (int)(after - name), name);
            source = after;
        } else {
            fputc(*source++, out);
        }
    }
    fprintf(out,
            "\nvoid tfm_body_%zu(__global const ulong *tfm_arguments, TFM_POSITION_PARAMETERS) {\n    "
            "%s(TFM_POSITION%s);\n}\n",
            number, kernel->name, kernel->body);
    const bool whole = !ferror(out);
    if (fclose(out) == 0 && whole)
        return text;
    free(text);
    return NULL;
}

char *tfm__megakernel_body_call(const tfm__kernel *kernel, size_t count, const tfm__arg *args) {
    char *text = NULL;
    size_t bytes, word = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    bool whole = true;
    cl_uint parameter = 0;
    for (size_t i = 0; i < count; i++) {
        char type[128] = "";
        if (args[i].kind == TFM__ARG_TENSOR) {
            fprintf(out, ", (__global void *)tfm_arguments[%zu], (long)tfm_arguments[%zu]", word, word + 1);
            word += 2;
            parameter++;
        } else if (args[i].kind == TFM__ARG_INT) {
            fprintf(out, ", (long)tfm_arguments[%zu]", word++);
        } else if (args[i].kind == TFM__ARG_FLOAT) {
            fprintf(out, ", as_float((uint)tfm_arguments[%zu])", word++);
        } else {
            whole = clGetKernelArgInfo(kernel->cl, parameter, CL_KERNEL_ARG_TYPE_NAME, sizeof(type), type, NULL) ==
                        CL_SUCCESS &&
                    type[0] && whole;
            fprintf(out, ", *(__global const %s *)(tfm_arguments + %zu)", type, word);
            word += args[i].bytes / sizeof(uint64_t);
        }
        parameter++;
    }
    whole = !ferror(out) && whole;
    if (fclose(out) == 0 && whole)
        return text;
    free(text);
    return NULL;
}

char *tfm__megakernel_driver_text(tfm_context *ctx, size_t count) {
    char *text = NULL, *source = tfm__program_source(ctx, "megakernel");
    size_t bytes;
    FILE *out = source ? open_memstream(&text, &bytes) : NULL;
    bool whole = out != NULL;
    if (out) {
        for (size_t i = 0; i < count; i++)
            fprintf(out, "void tfm_body_%zu(__global const ulong *, size_t, size_t, size_t, size_t, size_t, size_t);\n",
                    i);
        fputs("#define TFM_RUN_BODIES(arguments, id0, id1, id2, n0, n1, n2)", out);
        for (size_t i = 0; i < count; i++)
            fprintf(out, " case %zu: tfm_body_%zu(arguments, id0, id1, id2, n0, n1, n2); break;", i, i);
        fprintf(out, "\n%s", source);
        whole = !ferror(out);
        whole = fclose(out) == 0 && whole;
    }
    free(source);
    if (whole)
        return text;
    free(text);
    return NULL;
}
