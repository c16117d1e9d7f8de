/* Reads files of ONNX node tests into plain host values. A damaged file is refused with a sentence. */
#ifndef TFM_TESTS_ONNX_FILE_H
#define TFM_TESTS_ONNX_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "onnx.pb-c.h"

enum { ONNX_MAX_RANK = 8 };

/* ONNX element types used in node tests. */
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
    int rank; /* 0: scalar */
    int64_t dims[ONNX_MAX_RANK];
    size_t count;
    void *data; /* `count` elements in native byte order; NULL for an unsupported type */
} onnx_tensor;

/* "FLOAT16"; "type 99" for an unknown type. */
const char *onnx_type_name(int type);
/* Bytes of an element; 0 for an unsupported type. */
size_t onnx_type_size(int type);

/* Reads a whole file, for free(); on failure NULL, and a sentence in `why`. */
void *onnx_file_read(const char *path, size_t *size, char *why, size_t why_size);

/* NULL and a sentence if the bytes are not a model with a graph. Free with onnx_model_free. */
Onnx__ModelProto *onnx_model_parse(const void *bytes, size_t size, char *why, size_t why_size);
void onnx_model_free(Onnx__ModelProto *model);

/* Fills *out from a serialized tensor, or from one in a model; false and a sentence if it is damaged. An unsupported
 * type is no error: then out->data is NULL. */
bool onnx_tensor_parse(onnx_tensor *out, const void *bytes, size_t size, char *why, size_t why_size);
bool onnx_tensor_from(onnx_tensor *out, const Onnx__TensorProto *proto, char *why, size_t why_size);
void onnx_tensor_free(onnx_tensor *tensor);

/* Element i as a number; supported types only. */
double onnx_tensor_number(const onnx_tensor *tensor, size_t i);
/* fp16 and bf16 to float. */
double onnx_half(uint16_t bits);
double onnx_bfloat(uint16_t bits);

#endif
