#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#include "unbuilt.h"
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KERNELS = 16384, MADE = 16384, CONTEXTS = 256, NAME = 64, MOST = 160 };

/* The kernels of programs, and created kernels, by handle. Drivers reuse handles, so look up the newest first. */
static struct {
    cl_program program;
    char name[NAME];
    int parameters;
} kernels[KERNELS];
static struct {
    cl_kernel kernel;
    size_t at; /* index in kernels */
} made[MADE];
/* For each context a program with a kernel p<N> of N parameters. */
static struct {
    cl_context context;
    cl_program program;
} stubs[CONTEXTS];
static size_t kernel_count, made_count, stub_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The preprocessed source; NULL on failure. */
static char *preprocessed(const char *source, const char *options) {
    const char *clang = getenv("GPU_CLANG"), *folder = getenv("TMPDIR");
    char path[4096], command[8192];
    snprintf(path, sizeof(path), "%s/tfm-unbuilt-XXXXXX", folder ? folder : "/tmp");
    const int file = mkstemp(path);
    if (file < 0)
        return NULL;
    const bool written = write(file, source, strlen(source)) == (ssize_t)strlen(source);
    close(file);
    /* The compiler must not load the layer. */
    snprintf(command, sizeof(command), "unset OPENCL_LAYERS; %s -E -P -x cl %s '%s' 2>/dev/null",
             clang ? clang : "clang-15", options, path);
    FILE *out = written ? popen(command, "r") : NULL;
    size_t size = 0, room = 1 << 16;
    char *text = out ? malloc(room) : NULL;
    for (size_t got; text && (got = fread(text + size, 1, room - size - 1, out)) > 0;) {
        size += got;
        if (size + 1 == room)
            text = realloc(text, room *= 2);
    }
    if (text)
        text[size] = 0;
    if (out && pclose(out) != 0) {
        free(text);
        text = NULL;
    }
    unlink(path);
    return text;
}

/* The number of parameters after a kernel's name, counted by commas. */
static int count_parameters(const char *at) {
    int depth = 0, commas = 0;
    bool any = false;
    for (; *at; at++) {
        depth += *at == '(';
        depth -= *at == ')';
        if (depth == 0)
            return any ? commas + 1 : 0;
        commas += depth == 1 && *at == ',';
        any = any || (*at != '(' && !isspace((unsigned char)*at));
    }
    return -1;
}

bool unbuilt_program(cl_program program, const char *source, const char *options) {
    static const char KERNEL[] = "__kernel ";
    if (!strstr(source, "#line 1 \"")) /* not a program of the library */
        return false;
    char *text = preprocessed(source, options);
    pthread_mutex_lock(&lock);
    const size_t before = kernel_count;
    for (const char *at = text; at && (at = strstr(at, KERNEL)) && (at = strstr(at, "void"));) {
        at += strlen("void");
        at += strspn(at, " \n");
        const int length = (int)strcspn(at, "( \n");
        const int parameters = count_parameters(at + length);
        if (kernel_count == KERNELS || length >= NAME || parameters < 0 || parameters > MOST)
            abort(); /* enlarge the tables */
        kernels[kernel_count].program = program;
        kernels[kernel_count].parameters = parameters;
        snprintf(kernels[kernel_count++].name, NAME, "%.*s", length, at);
    }
    const bool found = kernel_count > before;
    pthread_mutex_unlock(&lock);
    free(text);
    return found;
}

/* The stub program of a context, built at first use. */
static cl_program stub_of(const cl_icd_dispatch *next, cl_program program, cl_int *code) {
    cl_context context;
    *code = next->clGetProgramInfo(program, CL_PROGRAM_CONTEXT, sizeof(context), &context, NULL);
    if (*code != CL_SUCCESS)
        return NULL;
    for (size_t i = 0; i < stub_count; i++)
        if (stubs[i].context == context)
            return stubs[i].program;
    if (stub_count == CONTEXTS)
        abort();
    static char text[MOST * MOST * 16];
    const char *source = text;
    size_t size = 0;
    for (int parameters = 0; parameters <= MOST; parameters++) {
        size += (size_t)sprintf(text + size, "__kernel void p%d(", parameters);
        for (int i = 0; i < parameters; i++)
            size += (size_t)sprintf(text + size, "%slong x%d", i ? ", " : "", i);
        size += (size_t)sprintf(text + size, ") {}\n");
    }
    cl_program stub = next->clCreateProgramWithSource(context, 1, &source, NULL, code);
    if (*code == CL_SUCCESS)
        *code = next->clBuildProgram(stub, 0, NULL, "", NULL, NULL);
    if (*code != CL_SUCCESS)
        return NULL;
    stubs[stub_count].context = context; /* it lives as long as its stub */
    stubs[stub_count++].program = stub;
    return stub;
}

cl_kernel unbuilt_kernel(const cl_icd_dispatch *next, cl_program program, const char *name, cl_int *code) {
    cl_kernel kernel = NULL;
    bool ours = false;
    *code = CL_SUCCESS;
    pthread_mutex_lock(&lock);
    for (size_t i = kernel_count; !kernel && *code == CL_SUCCESS && i-- > 0;) {
        char stub[16];
        ours = ours || kernels[i].program == program;
        if (kernels[i].program != program || strcmp(kernels[i].name, name) != 0)
            continue;
        if (made_count == MADE)
            abort();
        cl_program whole = stub_of(next, program, code);
        snprintf(stub, sizeof(stub), "p%d", kernels[i].parameters);
        if (whole)
            kernel = next->clCreateKernel(whole, stub, code);
        if (kernel) {
            made[made_count].kernel = kernel;
            made[made_count++].at = i;
        }
    }
    pthread_mutex_unlock(&lock);
    if (ours && !kernel && *code == CL_SUCCESS)
        *code = CL_INVALID_KERNEL_NAME;
    return kernel;
}

const char *unbuilt_name(cl_kernel kernel, cl_program *program) {
    const char *name = NULL;
    pthread_mutex_lock(&lock);
    for (size_t i = made_count; !name && i-- > 0;)
        if (made[i].kernel == kernel) {
            name = kernels[made[i].at].name;
            *program = kernels[made[i].at].program;
        }
    pthread_mutex_unlock(&lock);
    return name;
}
