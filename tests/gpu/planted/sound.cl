// -cl-std=CL1.2
__kernel void sound(__global float *y, const int n) {
    __local float tile[64];
    tile[get_local_id(0)] = y[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    y[get_global_id(0)] = tile[63 - get_local_id(0)] * n;
}
