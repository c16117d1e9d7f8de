// -cl-std=CL1.2
/* The fault of private_array.cl, but listed in known.txt. */
__kernel void excused(__global float *y, __global const int *order, const int n) {
    float last[32];
    for (int i = 0; i < 32; i++)
        last[i] = y[i];
    for (int i = 0; i < n; i++)
        last[order[i] & 31] += y[i];
    for (int i = 0; i < 32; i++)
        y[i] = last[i];
}
