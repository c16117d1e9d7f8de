// -cl-std=CL1.2
/* Nobody has it, and no driver would link this. */
float missing(float x);
__kernel void missing_function(__global float *y) {
    y[get_global_id(0)] = missing(y[get_global_id(0)]);
}
