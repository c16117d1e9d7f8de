/* Programs that no driver builds; their kernels only take arguments and launches. Building one takes a driver a quarter
 * of a second, which is wasted if only the list of programs is needed. */
#ifndef TFM_TESTS_UNBUILT_H
#define TFM_TESTS_UNBUILT_H

#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <stdbool.h>

/* Finds the kernels of a source with the preprocessor of GPU_CLANG (default clang-15). False if it finds none: then the
 * driver must build it. */
bool unbuilt_program(cl_program program, const char *source, const char *options);

/* A kernel of such a program, a driver kernel with as many parameters; NULL with CL_SUCCESS for any other program. */
cl_kernel unbuilt_kernel(const cl_icd_dispatch *next, cl_program program, const char *name, cl_int *code);

/* The program of this kernel, and its name; NULL for any other kernel. */
const char *unbuilt_name(cl_kernel kernel, cl_program *program);

#endif
