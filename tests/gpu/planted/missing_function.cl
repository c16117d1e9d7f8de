// -cl-std=CL1.2
/* An undefined function: no driver links this. */
float missing(float x);
__kernel void missing_function(__global float *y) {
    y[get_global_id(0)] = missing(y[get_global_id(0)]);
}
