/* Files of ONNX node tests as plain values. Nothing here knows of devices. A damaged file is refused with a
 * sentence, never followed. */
#ifndef TFM_TESTS_ONNX_FILE_H
#define TFM_TESTS_ONNX_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "onnx.pb-c.h"

enum { ONNX_MAX_RANK = 8 };

/* Element types by ONNX's numbers, those that the format names in a node test. */
enum {
    ONNX_FLOAT = 1,
    ONNX_UINT8 = 2,
    ONNX_INT32 = 6,
    ONNX_INT64 = 7,
    ONNX_BOOL = 9,
    ONNX_FLOAT16 = 10,
    ONNX_DOUBLE = 11,
    ONNX_BFLOAT16 = 16,
};

typedef struct onnx_tensor {
    int type; /* 0: no tensor */
    int rank; /* 0 is a scalar */
    int64_t dims[ONNX_MAX_RANK];
    size_t count;
    void *data; /* `count` elements of the type, in the machine's order; NULL where the type cannot be held */
} onnx_tensor;

/* "FLOAT16"; "type 99" for one that the format does not have. */
const char *onnx_type_name(int type);
/* Bytes of an element, 0 if this reader does not hold the type. */
size_t onnx_type_size(int type);

/* Reads a whole file; NULL and a sentence in `why` where that fails. free(). */
void *onnx_file_read(const char *path, size_t *size, char *why, size_t why_size);

/* NULL and a sentence if the bytes are no model with a graph. Freed by onnx_model_free. */
Onnx__ModelProto *onnx_model_parse(const void *bytes, size_t size, char *why, size_t why_size);
void onnx_model_free(Onnx__ModelProto *model);

/* Fills *out from a serialised tensor, or from one that lies in a model; false and a sentence if it is
 * damaged. A type that cannot be held is no damage: then out->data is NULL. */
bool onnx_tensor_parse(onnx_tensor *out, const void *bytes, size_t size, char *why, size_t why_size);
bool onnx_tensor_from(onnx_tensor *out, const Onnx__TensorProto *proto, char *why, size_t why_size);
void onnx_tensor_free(onnx_tensor *tensor);

/* Element i as a number; types that can be held only. */
double onnx_tensor_number(const onnx_tensor *tensor, size_t i);
/* A half and a bfloat16 as a number. */
double onnx_half(uint16_t bits);
double onnx_bfloat(uint16_t bits);

#endif
