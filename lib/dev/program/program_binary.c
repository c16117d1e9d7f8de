/* A program's binary, and its build options as text, for offline compilers and packs. */
#include <stdio.h>
#include <string.h>
#include "dev/program/program.h"

unsigned char *tfm__program_binary(size_t *bytes, cl_program program) {
    cl_uint devices = 0;
    /* A wrapped context may have several devices, whose binaries come in an unknown order. */
    cl_int error = clGetProgramInfo(program, CL_PROGRAM_NUM_DEVICES, sizeof(devices), &devices, NULL);
    if (error == CL_SUCCESS && devices == 1)
        error = clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(*bytes), bytes, NULL);
    if (error != CL_SUCCESS || devices != 1 || *bytes == 0) {
        tfm__fail(TFM_ERROR_DEVICE, "the driver returns no program binary: %s (%d)", tfm__cl_error_name(error),
                  (int)error);
        return NULL;
    }
    unsigned char *binary = tfm__alloc(*bytes, 1);
    if (binary &&
        (error = clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(binary), &binary, NULL)) != CL_SUCCESS) {
        tfm__fail(TFM_ERROR_DEVICE, "the driver returns no program binary: %s (%d)", tfm__cl_error_name(error),
                  (int)error);
        free(binary);
        binary = NULL;
    }
    return binary;
}

bool tfm__options_split(char **defines, char **rest, const char *options) {
    *defines = tfm__strdup("");
    *rest = tfm__strdup("");
    bool whole = *defines && *rest;
    for (const char *at = options; whole && *(at += strspn(at, " "));) {
        const int length = (int)strcspn(at, " "), name = (int)strcspn(at, "= ");
        char **to = strncmp(at, "-D", 2) == 0 ? defines : rest, *more;
        if (to == rest)
            more = tfm__format("%s%s%.*s", *rest, **rest ? " " : "", length, at);
        else if (name < length)
            more = tfm__format("%s#define %.*s %.*s\n", *defines, name - 2, at + 2, length - name - 1, at + name + 1);
        else
            more = tfm__format("%s#define %.*s 1\n", *defines, length - 2, at + 2);
        if ((whole = more != NULL)) {
            free(*to);
            *to = more;
        }
        at += length;
    }
    if (!whole) {
        free(*defines);
        free(*rest);
        *defines = *rest = NULL;
    }
    return whole;
}
