// -cl-std=CL1.2
/* 40 KiB. */
__kernel void local_memory(__global float *y, const int n) {
    __local float tile[10240];
    for (int i = get_local_id(0); i < 10240; i += get_local_size(0))
        tile[i] = y[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    y[get_global_id(0)] = tile[(get_local_id(0) * n) % 10240];
}
