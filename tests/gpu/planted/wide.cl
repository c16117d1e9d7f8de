// -cl-std=CL1.2
__kernel void wide(__global float *y, __global const int *x, const long n, const long m) {
    float sum = 0.0f;
    for (int i = 0; i < (int)m; i++)
        sum += y[x[i + get_local_id(0)] * n];
    y[get_global_id(0)] = sum;
}
__kernel void narrow(__global float *y, __global const int *x, const long n, const long m) {
    float sum = 0.0f;
    for (int i = 0; i < (int)m; i++)
        sum += y[x[i + get_local_id(0)] + i * (int)n];
    y[get_global_id(0)] = sum;
}
