// -cl-std=CL1.2
__kernel void mistake(__global flaot *y) {
    y[0] = 1;
}
