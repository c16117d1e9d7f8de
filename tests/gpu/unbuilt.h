/* Programs that no driver builds: their kernels are there to be given arguments and launched, and that is all. Drivers
 * take a quarter of a second to build each, where the list of programs is all that is wanted. */
#ifndef TFM_TESTS_UNBUILT_H
#define TFM_TESTS_UNBUILT_H

#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <stdbool.h>

/* Finds the kernels of this text, by the preprocessor of GPU_CLANG, clang-15 if not given. False where it finds none:
 * the driver is to build it. */
bool unbuilt_program(cl_program program, const char *source, const char *options);

/* A kernel of such a program, which is the driver's own of as many parameters; NULL with CL_SUCCESS for any other
 * program. */
cl_kernel unbuilt_kernel(const cl_icd_dispatch *next, cl_program program, const char *name, cl_int *code);

/* Whose kernel this is, and its name; NULL for any other kernel. */
const char *unbuilt_name(cl_kernel kernel, cl_program *program);

#endif
